package hostservice

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/weftnet/weft/models/httpserver"
)

// checkTime is what one request and its answer may take: anybody outside may ask.
const checkTime = 5 * time.Second

// checkLimits are those of one Service's server.
var checkLimits = httpserver.Limits{Connections: 256, PerClient: 64, Header: checkTime, Request: checkTime,
	Answer: checkTime, Idle: time.Minute}

// checkServer answers one Service's healthCheckNodePort.
type checkServer struct {
	check healthCheck
	local func() int  // the node's ready endpoints
	sound func() bool // of the node's share in serving anything
	stop  context.CancelFunc
	parts sync.WaitGroup
}

// startCheck serves as soon as the Service's endpoints are known: until then nobody answers. That costs a
// load balancer a moment, a wrong 503 could cost it the node.
func startCheck(ctx context.Context, check healthCheck, endpoints func() []*slice, node string, sound func() bool) (
	*checkServer, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", ":"+strconv.Itoa(int(check.port)))
	if err != nil {
		return nil, err
	}
	c := &checkServer{check: check, sound: sound, local: func() int { return countReady(endpoints(), node) }}
	ctx, c.stop = context.WithCancel(ctx)
	c.parts.Go(func() {
		if !cache.WaitForCacheSync(ctx.Done(), func() bool { return endpoints() != nil }) {
			_ = listener.Close()
			return
		}
		if err := httpserver.Serve(ctx, listener, c, checkLimits); err != nil {
			slog.ErrorContext(ctx, "healthCheckNodePort is not served any more", "of", check.owner, "error", err)
		}
	})
	return c, nil
}

func (c *checkServer) close() {
	c.stop()
	c.parts.Wait()
}

// ServeHTTP answers in kube-proxy's words: load balancers read them.
func (c *checkServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	local, sound := c.local(), c.sound()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(local))
	if local > 0 && sound {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = fmt.Fprintf(w, "{\n\t\"service\": {\n\t\t\"namespace\": %q,\n\t\t\"name\": %q\n\t},\n\t\"localEndpoints\": "+
		"%d,\n\t\"serviceProxyHealthy\": %t\n}",
		c.check.owner.Namespace, c.check.owner.Name, local, sound)
}

// checks are the servers that run, by port.
type checks struct {
	start func(context.Context, healthCheck) (*checkServer, error)
	open  map[uint16]*checkServer
}

// apply starts and ends servers until they are those wanted, and returns why some do not run.
func (c *checks) apply(ctx context.Context, wanted map[uint16]healthCheck) map[uint16]error {
	for port, server := range c.open {
		if wanted[port] != server.check {
			server.close()
			delete(c.open, port)
		}
	}
	failed := map[uint16]error{}
	for port, check := range wanted {
		if c.open[port] != nil {
			continue
		}
		server, err := c.start(ctx, check)
		if err != nil {
			failed[port] = err
			continue
		}
		c.open[port] = server
	}
	return failed
}

func (c *checks) closeAll() {
	for port, server := range c.open {
		server.close()
		delete(c.open, port)
	}
}
