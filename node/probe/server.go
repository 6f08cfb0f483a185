package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
)

const (
	// maxProbes is how many an agent makes at a time.
	maxProbes = 4
	// maxRequest is the size of a request, in bytes.
	maxRequest = 4096
	// talkTime bounds how long a caller may take to ask, and to take the reply.
	talkTime = 10 * time.Second
	// enterTime is how long it may take to enter a sandbox, beside the probe itself.
	enterTime = 10 * time.Second
)

// Find is the sandbox of a pod now.
type Find func(contract.PodReference) (sandbox string, err error)

// Inside runs do in the network of a sandbox, as package platform promises it.
type Inside func(ctx context.Context, sandbox string, do func() error) error

// Server answers a [contract.ProbeRequest] on each connection.
type Server struct {
	find   Find
	inside Inside
	send   func(context.Context, contract.ProbeRequest) (result string, err error)
	places chan struct{} // has room for maxProbes
}

// NewServer sends probes from the pods that find finds.
func NewServer(find Find, inside Inside) *Server {
	return &Server{find: find, inside: inside, send: send, places: make(chan struct{}, maxProbes)}
}

// Open gives a connection on which one request is answered.
func (s *Server) Open(context.Context) (net.Conn, error) {
	theirs, ours := net.Pipe()
	go func() {
		defer ours.Close()
		if err := s.serve(ours); err != nil {
			slog.Warn("a probe has nobody who asks for it, or who hears of it", "error", err)
		}
	}()
	return theirs, nil
}

// serve reads a request, and replies.
func (s *Server) serve(caller net.Conn) error {
	if err := caller.SetReadDeadline(time.Now().Add(talkTime)); err != nil {
		return err
	}
	request, err := readRequest(caller)
	var said contract.ProbeReply
	if err == nil {
		said, err = s.probe(request)
		logProbe(request, said, err)
	}
	if err != nil {
		said = contract.ProbeReply{Error: err.Error(), NoAddress: errors.Is(err, errNoAddress)}
	}
	if err := caller.SetWriteDeadline(time.Now().Add(talkTime)); err != nil {
		return err
	}
	if err := json.NewEncoder(caller).Encode(said); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// readRequest reads a request and refuses one that is out of bounds.
func readRequest(r io.Reader) (request contract.ProbeRequest, err error) {
	body := json.NewDecoder(io.LimitReader(r, maxRequest))
	body.DisallowUnknownFields()
	if err := body.Decode(&request); err != nil {
		return request, fmt.Errorf("read the request: %w", err)
	}
	return request, contract.CheckProbe(request)
}

// probe gives an error if nothing was sent.
func (s *Server) probe(request contract.ProbeRequest) (said contract.ProbeReply, err error) {
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		return said, fmt.Errorf("%d probes are under way on the node; try again in a moment", maxProbes)
	}
	sandbox, err := s.find(request.Pod)
	if err != nil {
		return said, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), enterTime+contract.ProbeTime)
	defer cancel()
	err = s.inside(ctx, sandbox, func() (err error) {
		ctx, cancel := context.WithTimeout(ctx, contract.ProbeTime)
		defer cancel()
		begin := time.Now()
		said.Result, err = s.send(ctx, request)
		said.After = time.Since(begin)
		return err
	})
	return said, err
}

// logProbe tells who has sent what as which pod.
func logProbe(request contract.ProbeRequest, said contract.ProbeReply, err error) {
	log := slog.With("user", request.User, telemetry.Object("Pod", request.Pod.Namespace, request.Pod.Name), "protocol",
		request.Protocol, "destination", request.Destination)
	if err != nil {
		log.Warn("a probe is not sent", "error", err)
		return
	}
	log.Info("a probe was sent", "result", said.Result, "after", said.After)
}
