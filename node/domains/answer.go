package domains

import (
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/weftnet/weft/models/contract"
)

// answer is what a DNS server says that a name's addresses are.
type answer struct {
	name      string // in normal form
	addresses []address
}

type address struct {
	addr netip.Addr
	ttl  time.Duration
}

// parseAnswer reads a DNS message; ok is false of one that gives a name no addresses, or whose name nobody
// wants. What a chain of aliases (CNAME) ends in are the addresses of the name that was asked for. Of a
// message that is cut, as the first fragment of a datagram is, whole records count.
func parseAnswer(message []byte, wanted func(name string) bool, cut bool) (a answer, ok bool) {
	var p dnsmessage.Parser
	header, err := p.Start(message)
	if err != nil || !header.Response || header.OpCode != 0 || header.RCode != dnsmessage.RCodeSuccess {
		return a, false
	}
	question, err := p.Question()
	if err != nil || question.Class != dnsmessage.ClassINET || p.SkipAllQuestions() != nil {
		return a, false
	}
	a.name = contract.DomainName(question.Name.String())
	if !wanted(a.name) {
		return a, false
	}
	aliases, owned := map[string]string{}, map[string][]address{}
	for err == nil {
		err = readRecord(&p, aliases, owned)
	}
	if err != dnsmessage.ErrSectionDone && !cut {
		return a, false
	}
	seen := map[string]bool{}
	for name, more := a.name, true; more && !seen[name]; name, more = aliases[name] {
		seen[name] = true
		a.addresses = append(a.addresses, owned[name]...)
	}
	return a, len(a.addresses) > 0
}

// readRecord takes the next record of the answer.
func readRecord(p *dnsmessage.Parser, aliases map[string]string, owned map[string][]address) error {
	header, err := p.AnswerHeader()
	if err != nil {
		return err
	}
	owner, of := contract.DomainName(header.Name.String()), address{ttl: time.Duration(header.TTL) * time.Second}
	if header.Class != dnsmessage.ClassINET {
		return p.SkipAnswer()
	}
	switch header.Type {
	case dnsmessage.TypeCNAME:
		alias, err := p.CNAMEResource()
		if err == nil {
			aliases[owner] = contract.DomainName(alias.CNAME.String())
		}
		return err
	case dnsmessage.TypeA:
		r, err := p.AResource()
		if err != nil {
			return err
		}
		of.addr = netip.AddrFrom4(r.A)
	case dnsmessage.TypeAAAA:
		r, err := p.AAAAResource()
		if err != nil {
			return err
		}
		of.addr = netip.AddrFrom16(r.AAAA).Unmap()
	default:
		return p.SkipAnswer()
	}
	if of.addr.IsGlobalUnicast() {
		owned[owner] = append(owned[owner], of)
	}
	return nil
}
