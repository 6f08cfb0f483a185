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
	// writeTime is how long a caller may be behind when the capture ends.
	writeTime = 10 * time.Second
)

// Find is the device of a request now.
type Find func(contract.CaptureRequest) (Device, error)

// Server answers a [contract.CaptureRequest] on each connection.
type Server struct {
	find   Find
	open   func(device string, program instructions) (source, error)
	places chan struct{} // has room for maxCaptures
}

// NewServer captures what find finds. Find refuses what must not be captured.
func NewServer(find Find) *Server {
	return &Server{find: find, open: open, places: make(chan struct{}, maxCaptures)}
}

// Open gives a connection on which one request is answered.
func (s *Server) Open(context.Context) (net.Conn, error) {
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
	if err := caller.SetDeadline(time.Now().Add(requestTime)); err != nil {
		return err
	}
	request, err := readRequest(caller)
	if err != nil {
		return errors.Join(err, reply(caller, err))
	}
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	default:
		err := fmt.Errorf("%d captures are under way on the node; try again when one has ended", maxCaptures)
		return errors.Join(err, reply(caller, err))
	}
	device, from, err := s.begin(request)
	if err != nil {
		return fmt.Errorf("for user %q: %w", request.User, errors.Join(err, reply(caller, err)))
	}
	defer from.Close()
	if err := reply(caller, nil); err != nil {
		return err
	}
	return stream(caller, request, device, from)
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

// reply says that packets follow, or why they do not.
func reply(w io.Writer, refused error) error {
	var said contract.CaptureReply
	if refused != nil {
		said.Error = refused.Error()
	}
	if err := json.NewEncoder(w).Encode(said); err != nil {
		return fmt.Errorf("reply: %w", err)
	}
	return nil
}

// begin opens the device of a request. What is captured is looked up once more after that, as a pod may have gone
// meanwhile.
func (s *Server) begin(request contract.CaptureRequest) (Device, source, error) {
	if err := supported(); err != nil {
		return Device{}, nil, err
	}
	device, err := s.find(request)
	if err != nil {
		return device, nil, err
	}
	from, err := s.open(device.Name, filter(request.Spec, device.Tunnels))
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
func stream(caller net.Conn, request contract.CaptureRequest, device Device, from source) error {
	if err := errors.Join(caller.SetReadDeadline(time.Time{}),
		caller.SetWriteDeadline(time.Now().Add(request.Spec.Duration.Duration+writeTime))); err != nil {
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
