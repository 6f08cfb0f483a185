package hns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
)

// maxBody bounds a call's text in bytes.
const maxBody = 1 << 20

// ErrBadCall: what arrived is no call.
var ErrBadCall = errors.New("not a call")

// call is what a DLL sends: FUNCTION GUID HANDLE LENGTH, a newline, and LENGTH bytes (dll/rpc.h).
type call struct {
	function string
	id       string
	handle   uint64
	body     string
}

func readCall(r *bufio.Reader) (call, error) {
	header, err := r.ReadSlice('\n')
	if err != nil {
		return call{}, fmt.Errorf("%w: %w", ErrBadCall, err)
	}
	fields := strings.Fields(string(header))
	if len(fields) != 4 {
		return call{}, fmt.Errorf("%w: a header of %d fields", ErrBadCall, len(fields))
	}
	c := call{function: fields[0]}
	if fields[1] != "-" {
		c.id = fields[1]
	}
	if c.handle, err = strconv.ParseUint(fields[2], 16, 64); err != nil {
		return call{}, fmt.Errorf("%w: handle %q", ErrBadCall, fields[2])
	}
	length, err := strconv.Atoi(fields[3])
	if err != nil || length < 0 || length > maxBody {
		return call{}, fmt.Errorf("%w: length %q", ErrBadCall, fields[3])
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return call{}, fmt.Errorf("%w: %w", ErrBadCall, err)
	}
	c.body = string(body)
	return c, nil
}

func writeReply(w io.Writer, reply Reply) error {
	text := func(s *string) (int, string) {
		if s == nil {
			return -1, ""
		}
		return len(*s), *s
	}
	outLength, out := text(reply.Out)
	errLength, failure := text(reply.Err)
	_, err := fmt.Fprintf(w, "%x %x %d %d\n%s%s", uint32(reply.Status), reply.Handle, outLength, errLength, out, failure)
	return err
}

// ServeRPC answers the DLLs until ctx ends. host serves what iphlpapi forwards.
func ServeRPC(ctx context.Context, l net.Listener, s *Service, host Host) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		go serveCall(ctx, conn, s, host)
	}
}

func serveCall(ctx context.Context, conn net.Conn, s *Service, host Host) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	c, err := readCall(bufio.NewReader(conn))
	if err != nil {
		s.log.Warn("call", "err", err)
		return
	}
	if c.function == notifyFunction {
		watch(ctx, conn, host)
		return
	}
	var reply Reply
	switch {
	case c.function == powerShellFunction:
		reply = s.runPowerShell(host, c.body)
	case hostFunctions[c.function]:
		reply = s.callHost(host, c)
	default:
		reply = s.Call(c.function, c.id, c.handle, c.body)
	}
	if err := writeReply(conn, reply); err != nil {
		s.log.Log(ctx, slog.LevelDebug, "the caller is gone", "function", c.function, "err", err)
	}
}
