package ctlookup

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weftnet/weft/models/contract"
)

// aProperty is one of a kind, padded.
func aProperty(kind uint16, value ...byte) []byte {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, kind), uint16(propertyHeader+len(value)))
	p = append(p, value...)
	return append(p, make([]byte, (8-len(p)%8)%8)...)
}

// controller is an action that hands a packet up: controller(userdata=…,meter_id=…) in words of ovs-ofctl.
func controller(list ...[]byte) []byte {
	a := append(experimenter(subtypeController2, controller2Header), slices.Concat(list...)...)
	binary.BigEndian.PutUint16(a[2:], uint16(len(a)))
	return a
}

// TestNoCopyHasAMeter, wherever it stands among the properties, and in clones too. All else stays.
func TestNoCopyHasAMeter(t *testing.T) {
	userdata, meter := aProperty(propertyUserdata-4, 0, 0, 0, opcodeLog, 0, 0, 0, 0), aProperty(propertyMeter, 0, 0, 0, 1)
	for name, c := range map[string]struct{ sent, want []byte }{
		"last":       {controller(userdata, meter), controller(userdata)},
		"first":      {controller(meter, userdata), controller(userdata)},
		"alone":      {controller(meter), controller()},
		"in a clone": {cloned(controller(userdata, meter), output), cloned(controller(userdata), output)},
		"none":       {controller(userdata), controller(userdata)},
		"broken":     {controller(userdata, meter[:4]), controller(userdata, meter[:4])},
	} {
		f := newFlows(Changes{FTP: true})
		got, err := f.message(flowMod(c.sent, output))
		if name == "broken" { // an action of 28 bytes is none
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		if want := flowMod(c.want, output); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v, got\n% x, want\n% x", name, err, got, want)
		}
	}
}

// packetIn is the message that brings a packet, with the userdata of the action that handed it up.
func packetIn(opcode byte) []byte {
	return message(typeExperimenter, []byte{0, 0, 0x23, 0x20, 0, 0, 0, subtypePacketIn2}, aProperty(0, 1, 2, 3),
		aProperty(propertyUserdata, 0, 0, 0, opcode, 0, 0, 0, 0))
}

// TestLinesInLogsHaveARate: a burst of a second's, and each second as many more. Other packets are not counted.
func TestLinesInLogsHaveARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, switchs := net.Pipe()
		defer ours.Close()
		c := Over(ours, Changes{}, nil)
		go func() {
			defer switchs.Close()
			for range 3 {
				for range 100 {
					_, _ = switchs.Write(packetIn(opcodeLog))
					_, _ = switchs.Write(packetIn(1))
				}
				time.Sleep(time.Second)
			}
		}()
		seen, buffer := map[byte]int{}, make([]byte, 1<<10)
		for {
			n, err := c.Read(buffer)
			if err != nil {
				break
			}
			for opcode := range byte(opcodeLog + 1) {
				if bytes.Equal(buffer[:n], packetIn(opcode)) {
					seen[opcode]++
				}
			}
		}
		if seen[opcodeLog] != 3*contract.ACLLogRate || seen[1] != 300 || len(seen) != 2 {
			t.Errorf("the controller gets %v packets, by what they are for", seen)
		}
	})
}
