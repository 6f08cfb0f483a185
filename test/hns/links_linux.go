package hns

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// links hears of every change of a device. The kernel queues a notice before the change is done, so
// that who reads a device's configuration and then drains the queue knows what came before the read.
type links struct{ socket *nl.NetlinkSocket }

func watchLinks() (*links, error) {
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK)
	if err != nil {
		return nil, fmt.Errorf("hear of devices' changes: %w", err)
	}
	return &links{socket}, nil
}

func (l *links) close() { l.socket.Close() }

// drain tells of the changes so far.
func (l *links) drain(changed func(index int, up bool)) error {
	for {
		ready := []unix.PollFd{{Fd: int32(l.socket.GetFd()), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		messages, _, err := l.socket.Receive()
		if errors.Is(err, unix.ENOBUFS) { // more than the queue holds: some are lost
			continue
		}
		if err != nil {
			return fmt.Errorf("hear of devices' changes: %w", err)
		}
		for _, m := range messages {
			if m.Header.Type != unix.RTM_NEWLINK {
				continue
			}
			header := unix.NlMsghdr(m.Header)
			link, err := netlink.LinkDeserialize(&header, m.Data)
			if err != nil {
				return fmt.Errorf("read a device's change: %w", err)
			}
			changed(link.Attrs().Index, link.Attrs().Flags&net.FlagUp != 0)
		}
	}
}
