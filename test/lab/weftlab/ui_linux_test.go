package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWhereThePageIsServed(t *testing.T) {
	for args, want := range map[string]struct {
		port   uint16
		serves bool
	}{
		"ui":                                   {0, true},
		"ui --port 8600 -n shop":               {8600, true},
		"ui -n shop --context lab --port=8600": {8600, true},
		"ui --no-open --port 8600 --port 8601": {8601, true},
		"ui --help":                            {0, false},
		"ui --port 70000":                      {0, false},
		"status":                               {0, false},
		"flows --to svc/ui":                    {0, false},
		"":                                     {0, false},
	} {
		port, serves := pagePort(strings.Fields(args))
		if serves != want.serves || serves && port != want.port {
			t.Errorf("weft %s: port %d, %v", args, port, serves)
		}
	}
}

// A browser of this machine gets the answers of a server that only dial reaches, until the command ends.
func TestForward(t *testing.T) {
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "for "+r.Host)
	}))
	defer page.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- forward(ctx, listener, func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", page.Listener.Addr().String())
		})
	}()
	browser := http.Client{Transport: &http.Transport{}} // it keeps its connection open
	address := "http://" + listener.Addr().String()
	for range 2 {
		answer, err := browser.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || string(body) != "for "+listener.Addr().String() {
			t.Errorf("the answer is %q, %v", body, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := browser.Get(address); err == nil {
		t.Error("the page answers after the command has ended")
	}
}
