package httpserver

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// start serves /healthz, /hold, which answers when release is closed, and /slow, which takes three times as long as a
// request may.
func start(t *testing.T, listener net.Listener, limits Limits) (holding <-chan struct{}, release chan struct{}) {
	t.Helper()
	began, release := make(chan struct{}, 100), make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /hold", func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-release
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /slow", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(3 * limits.Request):
			fmt.Fprintln(w, "ok")
		case <-r.Context().Done():
			http.Error(w, "the request was given up", http.StatusServiceUnavailable)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, mux, limits) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ends with %v", err)
		}
	})
	return began, release
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// patience is how long a test waits for what has to happen, on the busiest of machines.
const patience = 2 * time.Minute

// dial connects from an address of the loopback network.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

func ask(c net.Conn, path string) { fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) }

// answered reads the first bytes of an answer: "" from a connection that was closed.
func answered(c net.Conn) string {
	b := make([]byte, 12)
	if _, err := io.ReadFull(c, b); err != nil {
		return ""
	}
	return string(b)
}

func wantHealth(t *testing.T, from, at string) {
	t.Helper()
	c := dial(t, from, at)
	defer c.Close()
	if ask(c, "/healthz"); answered(c) != "HTTP/1.1 200" {
		t.Errorf("a probe from %s is not answered", from)
	}
}

var long = Limits{Connections: 8, PerClient: 4, Header: time.Minute, Request: time.Minute, Answer: time.Minute,
	Idle: time.Hour}

// TestNewcomersAreAnswered: connections that hold their places, with a request answered or none sent, keep out no
// probe, neither of the same client nor of another.
func TestNewcomersAreAnswered(t *testing.T) {
	for _, asks := range []bool{false, true} {
		listener := listen(t)
		at := listener.Addr().String()
		start(t, listener, long)
		var held []net.Conn
		for i := range 3 * long.Connections {
			c := dial(t, fmt.Sprintf("127.0.0.%d", 2+i%5), at)
			if asks {
				if ask(c, "/nothing"); answered(c) != "HTTP/1.1 404" {
					t.Errorf("connection %d is not answered", i)
				}
			}
			held = append(held, c)
		}
		wantHealth(t, "127.0.0.2", at)
		wantHealth(t, "127.0.0.9", at)
		if open := stillOpen(held); open > long.Connections {
			t.Errorf("%d connections are held, more than %d", open, long.Connections)
		}
	}
}

// stillOpen counts connections that the server has not closed; a byte of half a request tells.
func stillOpen(held []net.Conn) (open int) {
	for _, c := range held {
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := io.Copy(io.Discard, c)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
			open++
		}
	}
	return open
}

// TestRequestsInHandAreKept: a client that has all of its requests in hand gets no more, and others are answered.
func TestRequestsInHandAreKept(t *testing.T) {
	listener := listen(t)
	at := listener.Addr().String()
	holding, release := start(t, listener, long)
	var held []net.Conn
	for range long.PerClient {
		c := dial(t, "127.0.0.2", at)
		ask(c, "/hold")
		<-holding
		held = append(held, c)
	}
	more := dial(t, "127.0.0.2", at)
	if ask(more, "/healthz"); answered(more) != "" {
		t.Error("a client has more connections than it may")
	}
	wantHealth(t, "127.0.0.3", at)
	close(release)
	for i, c := range held {
		if answered(c) != "HTTP/1.1 200" {
			t.Errorf("request %d is not answered", i)
		}
	}
	wantHealth(t, "127.0.0.2", at)
}

// TestTimesAreBounds: whoever is silent, half silent, or does not read is left.
func TestTimesAreBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		short := Limits{Connections: 8, PerClient: 8, Header: time.Second, Request: 2 * time.Second,
			Answer: time.Minute, Idle: time.Second}
		listener := make(pipes)
		start(t, listener, short)
		dial := func() net.Conn {
			t.Helper()
			ours, theirs := net.Pipe()
			listener <- theirs
			if err := ours.SetDeadline(time.Now().Add(patience)); err != nil {
				t.Fatal(err)
			}
			return ours
		}
		for what, sends := range map[string]string{
			"nothing": "", "half a header": "GET /healthz HTTP/1.1\r\nHo",
			"half a body": "POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1234",
			"a request":   "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		} {
			c := dial()
			_, _ = io.WriteString(c, sends)
			if _, err := io.Copy(io.Discard, c); err != nil { // to its end
				t.Errorf("after %s the connection is held: %v", what, err)
			}
		}
		slow := dial()
		defer slow.Close()
		if ask(slow, "/slow"); answered(slow) != "HTTP/1.1 200" {
			t.Error("an answer that takes longer than a request may is given up")
		}
	})
}

// pipes is a listener without a network, for tests with a clock of their own.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestLimitsAreSet(t *testing.T) {
	server := New(http.NotFoundHandler(), Endpoints)
	if server.ReadHeaderTimeout*server.ReadTimeout*server.WriteTimeout*server.IdleTimeout == 0 ||
		server.MaxHeaderBytes == 0 ||
		Endpoints.Connections <= Endpoints.PerClient || Endpoints.PerClient == 0 {
		t.Errorf("something has no bound: %+v", Endpoints)
	}
}

// TestAllServersAreMadeHere goes through the source: what makes a server by itself has no bounds.
func TestAllServersAreMadeHere(t *testing.T) {
	makers := []string{"Server", "Serve", "ServeTLS", "ListenAndServe", "ListenAndServeTLS"}
	files := 0
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == filepath.Join(root, "test") || path == filepath.Join(root, "bin") ||
			strings.HasPrefix(entry.Name(), ".") && path != root):
			return filepath.SkipDir // the lab's machines are no part of a cluster
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, made := range serversIn(tree, makers) {
			if filepath.Dir(path) != filepath.Join(root, "models", "httpserver") {
				t.Errorf("%s makes an HTTP server by http.%s; use package httpserver, which gives it bounds", path, made)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files were read: %v", files, err)
	}
}

// serversIn are the ways in which a file makes servers: a literal or new of http.Server, and functions that serve.
func serversIn(tree *ast.File, makers []string) (found []string) {
	name := ""
	for _, i := range tree.Imports {
		if i.Path.Value == `"net/http"` {
			if name = "http"; i.Name != nil {
				name = i.Name.Name
			}
		}
	}
	pointers := map[ast.Node]bool{} // types of fields and arguments, which make none
	ast.Inspect(tree, func(n ast.Node) bool {
		if p, ok := n.(*ast.StarExpr); ok {
			pointers[p.X] = true
		}
		if s, ok := n.(*ast.SelectorExpr); ok && !pointers[s] && slices.Contains(makers, s.Sel.Name) {
			if of, ok := s.X.(*ast.Ident); ok && name != "" && of.Name == name {
				found = append(found, s.Sel.Name)
			}
		}
		return true
	})
	return found
}
