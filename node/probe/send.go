package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
)

// send makes one connection from the calling thread's network until ctx ends, and says what it has met. It gives an
// error if nothing was sent.
func send(ctx context.Context, request contract.ProbeRequest) (result string, err error) {
	source := netip.AddrPortFrom(request.Source, 0)
	switch request.Protocol {
	case "tcp":
		err = connect(ctx, source, request.Destination)
	case "udp":
		err = query(ctx, source, request.Destination)
	case "sctp":
		err = associate(ctx, source, request.Destination)
	default:
		err = fmt.Errorf("protocol %q has no probe", request.Protocol)
	}
	return judge(request, err)
}

var errNoAddress = errors.New("the network that was entered does not have the address")

// judge tells an answer of the network from a failure of the node.
func judge(request contract.ProbeRequest, err error) (result string, failed error) {
	var late net.Error
	is := func(list []syscall.Errno) bool {
		return slices.ContainsFunc(list, func(code syscall.Errno) bool { return errors.Is(err, code) })
	}
	switch {
	case err == nil:
		return api.ProbeAnswered, nil
	case is(refusals):
		return api.ProbeRefused, nil
	case is(unreachables):
		return api.ProbeUnreachable, nil
	case errors.Is(err, notAvailable):
		return "", fmt.Errorf("%w %v of pod %s/%s, so nothing was sent from it", errNoAddress, request.Source,
			request.Pod.Namespace, request.Pod.Name)
	case errors.As(err, &late) && late.Timeout():
		return api.ProbeUnanswered, nil
	}
	return "", err
}

// connect opens a connection by TCP, and closes it. It carries no data.
func connect(ctx context.Context, source, destination netip.AddrPort) error {
	conn, err := (&net.Dialer{}).DialTCP(ctx, "tcp", source, destination)
	if err != nil {
		return err
	}
	return conn.Close()
}

// maxAnswer is how much of an answer is read, in bytes. Nobody looks at it.
const maxAnswer = 512

// query sends one datagram, and waits for an answer, or for an ICMP error.
func query(ctx context.Context, source, destination netip.AddrPort) error {
	conn, err := (&net.Dialer{Control: tellErrors}).DialUDP(ctx, "udp", source, destination)
	if err != nil {
		return err
	}
	defer conn.Close()
	// Wine binds to all addresses in place of one that is not there.
	if bound := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(); bound != source.Addr() {
		return notAvailable
	}
	if deadline, bounded := ctx.Deadline(); bounded {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if _, err = conn.Write(datagram); err == nil {
		_, err = conn.Read(make([]byte, maxAnswer))
	}
	return err
}

// datagram asks DNS for the servers of the root, since of all that listen by UDP a DNS server is asked for most. To
// others it is one small datagram that they need not answer.
var datagram = func() []byte {
	message := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET}}}
	packed, err := message.Pack()
	if err != nil {
		panic(err) // it is the same one each time
	}
	return packed
}()
