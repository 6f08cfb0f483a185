package proxy

import (
	"errors"

	"golang.org/x/sys/unix"
)

// refused says whether there is nobody at the other end of a socket of datagrams, or no way to it.
func refused(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH)
}

// Files that one connection may need: two sockets, and a pipe each way for splice.
const filesPerConnection = 6

// mostConnections leaves half of the files that the agent may open to the rest of it.
func mostConnections() int64 {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		files.Cur = 1024
	}
	return int64(max(64, min(files.Cur, 1<<18)/2/filesPerConnection))
}

// mostSessions of UDP on the host, one socket each.
func mostSessions() int64 {
	return min(8192, mostConnections())
}
