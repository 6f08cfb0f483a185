package tunnel

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// The verdict is one byte, accepted, or the byte refused followed by two lengths of two bytes each
// (big endian) and the two texts: the [Reason] and what a person reads.
const (
	accepted = 0
	refused  = 1
	// longestVerdict is that of either text, in bytes.
	longestVerdict = 2048
)

func accept(w io.Writer) error {
	_, err := w.Write([]byte{accepted})
	return err
}

func writeVerdict(w io.Writer, reason Reason, text string) error {
	text = text[:min(len(text), longestVerdict)]
	message := []byte{refused}
	message = binary.BigEndian.AppendUint16(message, uint16(len(reason)))
	message = binary.BigEndian.AppendUint16(message, uint16(len(text)))
	message = append(append(message, reason...), text...)
	_, err := w.Write(message)
	return err
}

// readVerdict returns nil once the stream may begin. Any other error than an [*Error] is the
// connection's.
func readVerdict(r io.Reader) error {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return err
	}
	switch head[0] {
	case accepted:
		return nil
	case refused:
	default:
		return fmt.Errorf("the peer's verdict begins with byte %d: it is no agent of this version", head[0])
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return err
	}
	lengths := [2]int{int(binary.BigEndian.Uint16(head[1:])), int(binary.BigEndian.Uint16(head[3:]))}
	if max(lengths[0], lengths[1]) > longestVerdict {
		return fmt.Errorf("the peer's verdict is longer than %d bytes: it is no agent of this version", longestVerdict)
	}
	texts := make([]byte, lengths[0]+lengths[1])
	if _, err := io.ReadFull(r, texts); err != nil {
		return err
	}
	reason := Reason(texts[:lengths[0]])
	if !slices.Contains(reasons, reason) { // a metric's labels are not a peer's to choose
		reason = NoHandshake
	}
	return &Error{Reason: reason, ByPeer: true, Text: printable(string(texts[lengths[0]:]))}
}

// printable is text that may go into a log or an Event.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
