package openflow

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		want string // of the error
	}{
		"a message":     {Message(FlowMod, 7, 1, 2, 3), ""},
		"nothing":       {nil, "closed by the switch"},
		"half a header": {[]byte{4, 0, 0}, "unexpected EOF"},
		"half a body":   {Message(FlowMod, 7, 1, 2, 3)[:10], "unexpected EOF"},
		"too short":     {[]byte{4, 0, 0, 7, 0, 0, 0, 0}, "a message of 7 bytes is not OpenFlow's"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read(bytes.NewReader(append(c.says, "rest"[:len(c.says)/11*4]...)))
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v; want %q", err, c.want)
				}
				return
			}
			if err != nil || !bytes.Equal(m, c.says) || Number(m) != 7 {
				t.Errorf("% x, %v", m, err)
			}
		})
	}
}

// counted is a switch's answer.
func counted(packets, bytes uint64, flows uint32) []byte {
	body := []byte{0, aggregate, 0, 0, 0, 0, 0, 0}
	body = binary.BigEndian.AppendUint64(body, packets)
	body = binary.BigEndian.AppendUint64(body, bytes)
	body = binary.BigEndian.AppendUint32(body, flows)
	return Message(MultipartReply, 3, append(body, 0, 0, 0, 0)...)
}

func TestParseAggregate(t *testing.T) {
	good := counted(1<<40, 2<<40, 3)
	if got, err := ParseAggregate(good); err != nil || got != (Counted{Flows: 3, Packets: 1 << 40, Bytes: 2 << 40}) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, spoil := range map[string]func([]byte) []byte{
		"a byte less":        func(m []byte) []byte { return m[:len(m)-1] },
		"a byte more":        func(m []byte) []byte { return append(m, 0) },
		"an answer to flows": func(m []byte) []byte { m[9] = 1; return m },
		"another message":    func(m []byte) []byte { m[1] = BarrierReply; return m },
	} {
		got, err := ParseAggregate(spoil(bytes.Clone(good)))
		if err == nil || !strings.Contains(err.Error(), "was not asked") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Message(Hello, 0))
	f.Add(counted(1, 2, 3))
	f.Fuzz(func(t *testing.T, says []byte) {
		from := bytes.NewReader(says)
		m, err := Read(from)
		if err != nil {
			return
		}
		if len(m) < HeaderSize || !bytes.Equal(m, says[:len(m)]) || from.Len() != len(says)-len(m) {
			t.Errorf("% x of % x", m, says)
		}
		_, _ = ParseAggregate(m)
		_ = Refusal(m).Error()
	})
}
