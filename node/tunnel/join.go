package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// linger is how long one direction of a stream may outlive the other.
const linger = 30 * time.Second

// chunk is the size in bytes of what is copied at once: a TLS record's.
const chunk = 16 << 10

// Join copies between a connection on the chassis host's side and one on the node's side, both ways,
// until both directions have ended, one has failed or ctx is done, and closes both. The end of a
// direction is passed on; a connection that cannot end one direction only is closed. Nothing is
// kept but the chunk under way: who does not read slows down who writes. passed, which may be nil,
// is called before each chunk goes on; its error ends the stream.
func Join(ctx context.Context, host, node net.Conn, passed func(Direction, int) error) error {
	if passed == nil {
		passed = func(Direction, int) error { return nil }
	}
	closeBoth := func() {
		_ = host.Close()
		_ = node.Close()
	}
	defer closeBoth()
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- pass(node, host, func(n int) error { return passed(ToNode, n) }) }()
	go func() { ended <- pass(host, node, func(n int) error { return passed(FromNode, n) }) }()
	err := <-ended
	if err != nil {
		closeBoth()
		<-ended // it only says that the connection was closed
		return err
	}
	timer := time.AfterFunc(linger, closeBoth)
	defer timer.Stop()
	if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// pass copies one direction to its end.
func pass(to, from net.Conn, passed func(int) error) error {
	buffer := make([]byte, chunk)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := passed(n); err != nil {
				return err
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return endWriting(to)
		case err != nil:
			return err
		}
	}
}

// endWriting passes on that no more will come.
func endWriting(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok { // a named pipe in byte mode has no such thing
		return conn.Close()
	}
	err := half.CloseWrite()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
