//go:build linux

package hyperv

import (
	"errors"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// handler carries out a request and gives the bodies of its answers. Several are for a dump. No answer
// and no error is acknowledged. The caller holds the datapath's lock.
type handler func(request) ([][]byte, error)

// request is a message that has been found to be well formed.
type request struct {
	message
	command uint8
	dp      uint32
	dump    bool
	raw     []byte // the attributes
	attrs   attributes
}

// parseRequest takes a message apart. Those of connection tracking have netfilter's header, and all others those of
// generic netlink and of the datapath.
func parseRequest(m message) (r request, err error) {
	r = request{message: m, dump: m.flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP}
	switch tracking := m.kind == ctGet || m.kind == ctDelete; {
	case tracking && len(m.body) >= genericLength-headerLength && m.body[1] == 0:
		r.raw = m.body[4:]
	case !tracking && len(m.body) >= ovsLength-headerLength:
		r.command, r.dp, r.raw = m.body[0], native.Uint32(m.body[4:]), m.body[8:]
	default:
		return r, unix.EINVAL
	}
	if r.attrs, err = attributesOf(r.raw); err != nil {
		return r, errors.Join(err, unix.EINVAL)
	}
	return r, nil
}

// answer begins an answer's body: the headers, and the attributes that add puts after them.
func (r request) answer(add func(*netlink.AttributeEncoder) error) ([]byte, error) {
	return genericBody(r.command, datapathNumber, add)
}

func genericBody(command uint8, dp uint32, add func(*netlink.AttributeEncoder) error) ([]byte, error) {
	encoded, err := encode(add)
	if err != nil {
		return nil, err
	}
	body := native.AppendUint32([]byte{command, 1, 0, 0}, dp)
	return append(body, encoded...), nil
}

func one(body []byte, err error) ([][]byte, error) {
	if err != nil {
		return nil, err
	}
	return [][]byte{body}, nil
}

// errnoOf is the number of an error; 0 for none.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return unix.EINVAL
}
