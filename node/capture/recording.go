package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/pcapng"
	"github.com/weftnet/weft/models/signal"
	"github.com/weftnet/weft/models/version"
)

// flushPeriod is how long a packet may wait for others before it is sent, and how long a capture may go on after its
// caller has gone.
const flushPeriod = 100 * time.Millisecond

// source gives packets. It is a [liveSource] or a [keptSource].
type source interface {
	io.Closer
	// next gives a packet, whose data is in the buffer. [errGone] says that no more will come.
	next(buffer []byte) (pcapng.Packet, error)
	// counts are the packets that have passed the filter, and how many of them are lost since they were not read in time.
	counts() (seen, lost uint64, err error)
}

// liveSource is one that gives packets as they come.
type liveSource interface {
	source
	// SetReadDeadline has next wait for a packet until then. [os.ErrDeadlineExceeded] says that none has come.
	SetReadDeadline(time.Time) error
}

// keptSource is one that has its packets when the capture has ended.
type keptSource interface {
	source
	// finish ends the capture. Next gives its packets from then on.
	finish(context.Context) error
}

var errGone = errors.New("the device is gone or down, or has no more packets")

// Device is what is captured.
type Device struct {
	// Name is the name of the device in the host's network.
	Name string
	// MAC is the address that each of its packets comes from or goes to: that of a pod, or that of the host.
	MAC [6]byte
	// Comment says in the file whose it is.
	Comment string
	// Tunnels is true if GENEVE packets are wanted alone.
	Tunnels bool
}

// recording writes the packets of a source as pcapng until one of the spec's bounds is reached.
type recording struct {
	source source
	device Device
	spec   api.CaptureSpec
	file   *pcapng.Writer
	// packets and bytes are written.
	packets, bytes int64
}

// record ends when a bound is reached, ctx is done or the device is gone, and then writes how many packets were lost.
func record(ctx context.Context, w io.Writer, s source, d Device, spec api.CaptureSpec) (*recording, error) {
	r := &recording{source: s, device: d, spec: spec}
	begin := time.Now()
	if err := r.begin(w); err != nil {
		return r, fmt.Errorf("begin the file: %w", err)
	}
	if err := r.collect(ctx, begin.Add(spec.Duration.Duration)); err != nil {
		return r, err
	}
	seen, lost, err := s.counts()
	if err != nil {
		return r, err
	}
	err = r.file.Statistics(pcapng.Statistics{Start: begin, End: time.Now(), Received: seen, Dropped: lost})
	if err == nil {
		err = r.file.Flush()
	}
	if err != nil {
		return r, fmt.Errorf("end the file: %w", err)
	}
	return r, nil
}

func (r *recording) begin(w io.Writer) (err error) {
	r.file, err = pcapng.NewWriter(w, pcapng.Section{OS: runtime.GOOS, Hardware: runtime.GOARCH,
		Application: "weft " + version.Version(), Comment: r.device.Comment},
		pcapng.Interface{Name: r.device.Name, Comment: r.device.Comment, OS: runtime.GOOS, Filter: r.spec.Filter.String(),
			SnapLength: r.spec.SnapLength})
	if err != nil {
		return err
	}
	return r.file.Flush()
}

// collect writes the packets that there are until a time.
func (r *recording) collect(ctx context.Context, end time.Time) error {
	if s, isKept := r.source.(keptSource); isKept {
		return r.copyKept(ctx, s, end)
	}
	return r.copyLive(ctx, r.source.(liveSource), end)
}

// copyKept waits for the end, and writes what there is then.
func (r *recording) copyKept(ctx context.Context, s keptSource, end time.Time) error {
	signal.Sleep(ctx, time.Until(end))
	if ctx.Err() != nil {
		return nil
	}
	if err := s.finish(ctx); err != nil {
		return err
	}
	_, err := r.copyUntilDeadline(make([]byte, contract.MaxSnapLength))
	return err
}

// copyLive writes packets as they come. Whoever looks at them sees each soon.
func (r *recording) copyLive(ctx context.Context, s liveSource, end time.Time) error {
	buffer := make([]byte, contract.MaxSnapLength)
	for now := time.Now(); ctx.Err() == nil && now.Before(end); now = time.Now() {
		flush := now.Add(flushPeriod)
		if flush.After(end) {
			flush = end
		}
		if err := s.SetReadDeadline(flush); err != nil {
			return err
		}
		full, err := r.copyUntilDeadline(buffer)
		if err == nil {
			err = r.file.Flush()
		}
		if err != nil || full {
			return err
		}
	}
	return nil
}

// copyUntilDeadline says whether no more packets are wanted, or none will come.
func (r *recording) copyUntilDeadline(buffer []byte) (full bool, err error) {
	for {
		p, err := r.source.next(buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, nil
		case errors.Is(err, errGone):
			return true, nil
		case err != nil:
			return false, fmt.Errorf("read packets of device %s: %w", r.device.Name, err)
		}
		size := int64(len(p.Data) + packetOverhead)
		if r.bytes+size > r.spec.Bytes {
			return true, nil
		}
		if err := r.file.Packet(p); err != nil {
			return false, fmt.Errorf("write a packet: %w", err)
		}
		r.bytes += size
		if r.packets++; r.packets == r.spec.Packets {
			return true, nil
		}
	}
}

// packetOverhead is what pcapng needs for a packet at most, in bytes: an Enhanced Packet Block with flags and padding.
const packetOverhead = 48
