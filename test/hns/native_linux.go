package hns

import (
	"errors"
	"fmt"
	"sync"

	"github.com/weftnet/weft/test/netdev"
)

// nativeSwitch is what a Hyper-V switch does by itself while no extension forwards for it: the host's vNIC and the
// network outside reach each other. Endpoints have no part in it, see docs/hyperv.md.
type nativeSwitch struct {
	adapter, vnic netdev.Device
	running       sync.WaitGroup
}

// forwardNatively takes frames from one device to the other until close. Both are open to nobody else meanwhile.
func forwardNatively(adapter, vnic string) (*nativeSwitch, error) {
	outside, err := netdev.Open(adapter)
	if err != nil {
		return nil, err
	}
	host, err := netdev.OpenTap(vnic)
	if err != nil {
		return nil, errors.Join(err, outside.Close())
	}
	s := &nativeSwitch{adapter: outside, vnic: host}
	s.running.Go(func() { forward(outside, host) })
	s.running.Go(func() { forward(host, outside) })
	return s, nil
}

func forward(from, to netdev.Device) {
	buffer := make([]byte, netdev.MaxFrame)
	for {
		n, err := from.Read(buffer)
		if err != nil { // it is closed, or its device is gone
			return
		}
		_, _ = to.Write(buffer[:n]) // a frame may be lost on any wire
	}
}

func (s *nativeSwitch) close() {
	_, _ = s.adapter.Close(), s.vnic.Close()
	s.running.Wait()
}

// keepNative: the switch forwards by itself, or leaves it to the extension.
func (s *hostSwitch) keepNative() error {
	if !s.Native {
		s.stopNative()
		return nil
	}
	if s.native != nil {
		return nil
	}
	var err error
	if s.native, err = forwardNatively(s.Adapter, s.device); err != nil {
		return fmt.Errorf("switch of network %s: %w", s.Network, err)
	}
	return nil
}

func (s *hostSwitch) stopNative() {
	if s.native != nil {
		s.native.close()
		s.native = nil
	}
}
