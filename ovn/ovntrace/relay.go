package ovntrace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// relay serves the Southbound on a socket of its own: a scope narrows what ovn-trace asks for, and an expander writes
// the answers. Nothing changes in the database: what ovn-trace reads of it passes here.
type relay struct {
	folder   string
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	work     sync.WaitGroup
}

// newRelay serves an endpoint until it is closed. Nobody else may enter the socket's folder.
func newRelay(ctx context.Context, southbound string, variables Variables, of *scope) (*relay, error) {
	folder, err := os.MkdirTemp("", "weft-trace-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the socket by which ovn-trace reads the Southbound: %w", err)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "sb.sock"))
	if err != nil {
		return nil, fmt.Errorf("listen for ovn-trace: %w", errors.Join(err, os.RemoveAll(folder)))
	}
	r := &relay{folder: folder, listener: listener}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.work.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			r.work.Go(func() { r.serve(client, southbound, variables, of) })
		}
	})
	return r, nil
}

// endpoint is where ovn-trace finds it.
func (r *relay) endpoint() string { return "unix:" + r.listener.Addr().String() }

func (r *relay) close() {
	r.cancel()
	_ = r.listener.Close()
	r.work.Wait()
	_ = os.RemoveAll(r.folder)
}

// serve passes on what a client and the server say to each other. If the server cannot be reached, the client's
// connection ends, and it tries again until its run is over.
func (r *relay) serve(client net.Conn, southbound string, variables Variables, of *scope) {
	defer client.Close()
	network, address, _ := strings.Cut(southbound, ":")
	server, err := new(net.Dialer).DialContext(r.ctx, network, address)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(r.ctx, func() { client.Close(); server.Close() })()
	go func() {
		_ = of.ask(server, client)
		server.Close()
	}()
	_, _ = io.Copy(&expander{variables: variables, to: client, trimmer: trimmer{scope: of}}, server)
}
