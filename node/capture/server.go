package capture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/telemetry"
)

const (
	// maxCaptures is how many an agent makes at a time.
	maxCaptures = 4
	// maxRequest is the size of a request, in bytes.
	maxRequest = 4096
	// requestTime bounds how long a caller may take to ask.
	requestTime = 10 * time.Second
	// beginTime is short of what a door waits for.
	beginTime = 25 * time.Second
	// writeTime is how long a caller may be behind when the capture ends.
	writeTime = 10 * time.Second
)

// Find is the device of a request now.
type Find func(contract.CaptureRequest) (Device, error)

// Server answers a [contract.CaptureRequest] on each connection.
type Server struct {
	find    Find
	backend Backend
	places  chan struct{} // has room for maxCaptures
	// beginTime bounds how long a capture may take to begin.
	beginTime time.Duration
	// ending is done when the captures under way have to end.
	ending context.Context
	end    context.CancelFunc
}

// Backend is how a system captures packets.
type Backend struct {
	open func(context.Context, Device, api.CaptureSpec) (source, error)
	// late: its sources are [keptSource], and not [liveSource].
	late bool
	// reclaim ends what an earlier process has left of a capture; nil: nothing outlives a process.
	reclaim func(context.Context) error
}

// NewServer captures what find finds. Find refuses what must not be captured.
func NewServer(find Find, b Backend) *Server {
	s := &Server{find: find, backend: b, places: make(chan struct{}, maxCaptures), beginTime: beginTime}
	s.ending, s.end = context.WithCancel(context.Background())
	return s
}

// Run ends what an earlier process has left of a capture and, when ctx ends, the captures that are under way. When it
// returns, nothing is left of them, and none begins any more.
func (s *Server) Run(ctx context.Context) {
	if s.backend.reclaim != nil {
		if err := s.backend.reclaim(ctx); err != nil {
			slog.ErrorContext(ctx, "something of an earlier capture is left on the node", "error", err)
		}
	}
	<-ctx.Done()
	s.end()
	for range maxCaptures {
		s.places <- struct{}{}
	}
}

// Open gives a connection on which one request is answered.
func (s *Server) Open(context.Context) (net.Conn, error) {
	if s.ending.Err() != nil {
		return nil, errors.New("the agent ends")
	}
	theirs, ours := net.Pipe()
	go func() {
		defer ours.Close()
		if err := s.serve(ours); err != nil {
			slog.Warn("a capture is not made, or broke off", "error", err)
		}
	}()
	return theirs, nil
}

// serve reads a request, replies, and writes packets.
func (s *Server) serve(caller net.Conn) error {
	defer context.AfterFunc(s.ending, func() { caller.Close() })()
	if err := caller.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return err
	}
	request, err := readRequest(caller)
	if err != nil {
		return errors.Join(err, refuse(caller, err))
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		err := fmt.Errorf("%d captures are under way on the node; try again when one has ended", maxCaptures)
		return errors.Join(err, refuse(caller, err))
	}
	if err := caller.SetDeadline(time.Now().Add(s.beginTime)); err != nil {
		return err
	}
	device, from, err := s.begin(request)
	if err != nil {
		return fmt.Errorf("for user %q: %w", request.User, errors.Join(err, refuse(caller, err)))
	}
	defer closeSource(from)
	if err := reply(caller, contract.CaptureReply{Late: s.backend.late}); err != nil {
		return err
	}
	return s.stream(caller, request, device, from)
}

// readRequest reads a request and refuses one that is out of bounds.
func readRequest(r io.Reader) (request contract.CaptureRequest, err error) {
	body := json.NewDecoder(io.LimitReader(r, maxRequest))
	body.DisallowUnknownFields()
	if err := body.Decode(&request); err != nil {
		return request, fmt.Errorf("read the request: %w", err)
	}
	return request, contract.CheckCapture(request.Spec)
}

func closeSource(from source) {
	if err := from.Close(); err != nil {
		slog.Error("something of a capture is left on the node", "error", err)
	}
}

// refuse says why no packets follow.
func refuse(w io.Writer, why error) error { return reply(w, contract.CaptureReply{Error: why.Error()}) }

func reply(w io.Writer, said contract.CaptureReply) error {
	if err := json.NewEncoder(w).Encode(said); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// begin opens the device of a request. What is captured is looked up once more after that, as a pod may have gone
// meanwhile.
func (s *Server) begin(request contract.CaptureRequest) (Device, source, error) {
	device, err := s.find(request)
	if err != nil {
		return device, nil, err
	}
	ctx, cancel := context.WithTimeout(s.ending, s.beginTime)
	defer cancel()
	from, err := s.backend.open(ctx, device, request.Spec)
	if err != nil {
		return device, nil, err
	}
	again, err := s.find(request)
	if err == nil && again != device {
		err = fmt.Errorf("what is on device %s has changed; try again", device.Name)
	}
	if err != nil {
		return device, nil, errors.Join(err, from.Close())
	}
	return device, from, nil
}

// stream writes packets until the capture ends or the caller goes.
func (s *Server) stream(caller net.Conn, request contract.CaptureRequest, device Device, from source) error {
	lasts := request.Spec.Duration.Duration + writeTime
	if s.backend.late {
		lasts += contract.CaptureLateness
	}
	if err := errors.Join(caller.SetReadDeadline(time.Time{}),
		caller.SetWriteDeadline(time.Now().Add(lasts))); err != nil {
		return err
	}
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	go func() {
		defer gone()
		_, _ = caller.Read(make([]byte, 1)) // nobody has more to say: it ends with the caller
	}()
	log := slog.With("user", request.User, "device", device.Name, "filter", request.Spec.Filter.String())
	if pod := request.Pod; pod != nil {
		log = log.With(telemetry.Object("Pod", pod.Namespace, pod.Name))
	}
	log.Info("a capture begins", "duration", request.Spec.Duration.Duration, "snapLength", request.Spec.SnapLength)
	made, err := record(ctx, caller, from, device, request.Spec)
	log.Info("a capture has ended", "packets", made.packets, "bytes", made.bytes)
	if ctx.Err() != nil || errors.Is(err, io.ErrClosedPipe) {
		return nil // the caller wanted no more
	}
	return err
}
