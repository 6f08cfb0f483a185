//go:build linux

package hyperv

import "fmt"

// What the record has for packets that the driver's helpers read.
const (
	helperFTP  = "helper ftp"
	helperTFTP = "helper tftp"
)

// help gives a packet of a connection to the helper of its ports, once the packet is translated: Conntrack.c,
// OvsDetectFtpPacket, OvsDetectFtp6Packet, OvsDetectTftpPacket and OvsDetectTftp6Packet. A helper may stop the machine.
// That cannot be emulated: the packet is lost, and recorded.
func (t *tracking) help() error {
	const portFTP, portTFTP = 21, 69
	n, helper := t.key.network, ""
	switch {
	case !t.conntrack.faults[FTPHelper]:
	case n.proto == protoTCP && (n.portSrc == portFTP || n.portDst == portFTP):
		helper = helperFTP
	case n.proto == protoUDP && n.portDst == portTFTP:
		helper = helperTFTP
	}
	if helper == "" {
		return nil
	}
	t.conntrack.record.add(helper)
	t.conntrack.log.Error("a packet has reached a helper of the driver, which may stop the machine", "helper", helper,
		"from port", n.portSrc, "to port", n.portDst, "zone", t.key.ct.zone)
	return dropped(fmt.Sprintf("read by the driver's %s", helper))
}
