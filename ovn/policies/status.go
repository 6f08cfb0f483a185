package policies

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weftnet/weft/models/api/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/nb"
	"github.com/weftnet/weft/models/reasons"
	"github.com/weftnet/weft/ovn/northbound"
	"github.com/weftnet/weft/ovn/objects"
	"github.com/weftnet/weft/ovn/part"
	"github.com/weftnet/weft/ovn/policy"
	"github.com/weftnet/weft/ovsdb"
)

// policyProblems are what the owner of a policy is told, of whose ACLs some are refused.
func (b *Part) policyProblems(p *policyState, refused int) []objects.Problem {
	kind, meta := p.key.Kind, &p.object.ObjectMeta
	var found []objects.Problem
	if p.object.Wrong != "" {
		found = append(found, objects.Problemf(kind, meta, badPolicy,
			"%s; the policy is not in force until it is corrected", p.object.Wrong))
	}
	for _, wrong := range p.object.Problems {
		problem := objects.Fieldf(kind, meta, badPolicy, wrong.Field, "%s", wrong.Text)
		problem.Untold = wrong.Untold
		found = append(found, problem)
	}
	if p.object.Policy == nil {
		return found
	}
	return slices.Concat(found, p.namedProblems(refused), b.rankProblems(p), loggingProblems(p.key.Kind, meta,
		p.object.Logging), b.windowsProblems(p))
}

// namedProblems are about ACLs of named ports that are too many.
func (p *policyState) namedProblems(refused int) []objects.Problem {
	if refused == 0 {
		return nil
	}
	return []objects.Problem{objects.Fieldf(p.key.Kind, &p.object.ObjectMeta, badPolicy, "spec",
		"%d numbers behind its named ports are beyond the %d terms, numbers times selectors and prefixes beside "+
			"them, that a policy may have, and match nothing; write numbers, or make several policies of it",
		refused, maxNamedTerms)}
}

// windowsProblems are about rules of which conntrack of Windows nodes does not know the protocol.
func (b *Part) windowsProblems(p *policyState) []objects.Problem {
	if !b.nodes.HasWindows() || !p.asksSCTP() {
		return nil
	}
	return []objects.Problem{objects.Limitf(p.key.Kind, &p.object.ObjectMeta, noSCTPOnWindows,
		"its rules for SCTP hold on Linux nodes; conntrack of Windows nodes does not know the protocol, and pods there "+
			"neither send nor get SCTP")}
}

// noACLTiers is what cluster-wide policies are told by a Northbound whose ACLs are all of one tier: there they would
// have the last word before or after NetworkPolicies, whatever they say.
const noACLTiers = "it is not in force: the ACLs of this OVN have no tiers, which OVN 23.06 is the first to have; " +
	"upgrade OVN"

// rankProblems are about other policies of the same priority.
func (b *Part) rankProblems(p *policyState) []objects.Problem {
	at, wide := p.rank()
	if !wide {
		return nil
	}
	kind, meta := p.key.Kind, &p.object.ObjectMeta
	if b.settings.Lacks.AclTiers {
		return []objects.Problem{objects.Problemf(kind, meta, lacksACLTiers, noACLTiers)}
	}
	if _, room := b.slot(p); !room {
		return []objects.Problem{objects.Fieldf(kind, meta, PriorityFull, "spec.priority",
			"other policies of priority %d in the tier %s have so many rules that there is no room for this "+
				"one's, which is not in force; give it another priority", at.priority, at.tier)}
	}
	var other *policyState
	first := "it is older, and decides first"
	for o := range b.placed(at) {
		if o != p {
			other = o
			break
		}
		first = "it is younger, and decides after this one"
	}
	if other == nil {
		return nil
	}
	if p.object.CreationTimestamp.IsZero() && other.object.CreationTimestamp.IsZero() {
		first = "the one that is applied first decides first"
	}
	return []objects.Problem{objects.Fieldf(kind, meta, samePriority, "spec.priority",
		"%d in the tier %s is also the priority of %s %s; %s; give each a priority of its own", at.priority, at.tier,
		other.key.Kind, other.key.Name, first)}
}

// asksSCTP says whether a rule of the policy speaks of SCTP.
func (p *policyState) asksSCTP() bool {
	return p.object != nil && p.object.Policy != nil && slices.ContainsFunc(p.object.Policy.Rules,
		func(rule policy.Rule) bool {
			return slices.ContainsFunc(rule.Ports, func(port policy.Port) bool { return port.Protocol == policy.SCTP })
		})
}

// missingPorts are the named ports of a policy that nobody has now.
func (b *Part) missingPorts(o *policy.Policy) []string {
	var missing []string
	for i := range o.Rules {
		rule := &o.Rules[i]
		if rule.Nothing() {
			continue
		}
		for _, port := range rule.Ports {
			if port.Name == "" || slices.ContainsFunc(b.selections.numbersBehind(o, rule, port.Name, (*numberState).there),
				func(n objects.PortNumber) bool { return port.Protocol == "" || n.Protocol == port.Protocol }) {
				continue
			}
			protocol := ""
			if port.Protocol != "" {
				protocol = " with protocol " + strings.ToUpper(string(port.Protocol))
			}
			missing = append(missing, fmt.Sprintf("%s: no pod that it is about has a port named %q%s now", rule.Field(),
				port.Name, protocol))
		}
	}
	return missing
}

// policyWord is what the status of a policy with so many ACLs says.
func (b *Part) policyWord(p *policyState, count, refused int) (reason *reasons.Condition, message string) {
	o := p.object
	room := false
	if o.Policy != nil {
		_, room = b.slot(p)
	}
	var texts []string
	if o.Wrong != "" {
		texts = append(texts, o.Wrong)
	}
	for _, wrong := range o.Problems {
		texts = append(texts, wrong.String())
	}
	for _, wrong := range p.namedProblems(refused) {
		texts = append(texts, wrong.Message)
	}
	switch {
	case o.Policy == nil:
		return notReadable, "it is not in force: " + strings.Join(texts, "; ")
	case !room && b.settings.Lacks.AclTiers:
		return notRanked, noACLTiers
	case !room:
		return noRoom, "it is not in force: spec.priority: older policies of this priority leave it no " +
			"room; give it another one"
	}
	acls := fmt.Sprintf("%d ACLs", count)
	if count == 1 {
		acls = "1 ACL"
	}
	where := fmt.Sprintf("%s in the OVN Northbound (%s=%s), on the port group %s", acls, ovsdb.OwnerMark,
		northbound.PolicyOwner(p.key), groupName(o.Policy.Subject, "", objects.PortNumber{}))
	reason = inForce
	if len(texts) > 0 {
		reason, texts[0] = partlyInForce, "in force except for what is wrong: "+texts[0]
	}
	texts = append(append(texts, where), b.missingPorts(o.Policy)...)
	for _, also := range append(b.rankProblems(p), b.windowsProblems(p)...) {
		texts = append(texts, also.Message)
	}
	return reason, strings.Join(texts, "; ")
}

// notePolicy remembers the status that a policy must have once its rows are there.
func (b *Part) notePolicy(p *policyState, acls, refused int) {
	reason, message := b.policyWord(p, acls, refused)
	o := p.object
	if p.key.Kind == objects.NetworkPolicyKind {
		b.noteNetworkPolicy(p, contract.PolicyStatus{UID: string(o.UID), Generation: o.Generation,
			InForce: reason != notReadable, Reason: reason.Name, Message: objects.Cut(message, objects.MaxMessage)})
		return
	}
	now := o.Ready(reason, message)
	conditions := append(slices.DeleteFunc(slices.Clone(o.Conditions), func(c metav1.Condition) bool {
		return c.Type == v1alpha1.Ready
	}), now)
	note := part.PatchStatus(p.key.Kind, &o.ObjectMeta, readiness{conditions})
	if p.note.Equal(note) || o.Status == marshal(readiness{part.Conditions{now}}) {
		return
	}
	p.note = note
	b.later(p)
}

// readiness is the status of a cluster-wide policy.
type readiness struct {
	Conditions part.Conditions `json:"conditions"`
}

// At is part of [part.Body].
func (r readiness) At(now time.Time) any { return readiness{r.Conditions.At(now)} }

// noteNetworkPolicy does so for a kind without a status, by an annotation.
func (b *Part) noteNetworkPolicy(p *policyState, now contract.PolicyStatus) {
	o := p.object
	now.Since = b.since(o, now)
	note := part.Annotate(p.key.Kind, &o.ObjectMeta, contract.PolicyStatusAnnotation, annotated(now))
	if p.note.Equal(note) {
		return
	}
	if p.note = note; o.Noted != contract.Format(now) {
		b.later(p)
	}
}

// since is the time of the status that a policy has already, where that one says the same and can be true. It is nil
// otherwise.
func (b *Part) since(o *objects.PolicyObject, now contract.PolicyStatus) *time.Time {
	before, _ := objects.ParseAnnotation[contract.PolicyStatus](contract.PolicyStatusAnnotation, o.Noted)
	if before.UID != now.UID || before.Generation != now.Generation || before.InForce != now.InForce ||
		before.Since == nil || before.Since.Before(o.CreationTimestamp.Time) || before.Since.Unix() > b.clock.Now() {
		return nil
	}
	return before.Since
}

// annotated is the status of a NetworkPolicy as an annotation has it.
type annotated contract.PolicyStatus

// At is part of [part.Value].
func (s annotated) At(now time.Time) string {
	if s.Since == nil {
		now = now.UTC().Truncate(time.Second)
		s.Since = &now
	}
	return contract.Format(contract.PolicyStatus(s))
}

// forgetNote has the note of a policy, which may be gone, worked out anew with its rows.
func (p *policyState) forgetNote() {
	if p != nil {
		p.note = part.Patch{}
	}
}

// noteAgain puts a NetworkPolicy's note back where somebody has changed it, and nothing else: whoever owns the policy
// may write the note, as often as he likes. A note that was without a time has the one with which it was written. It
// says whether that is all that there is to do.
func (b *Part) noteAgain(p *policyState, now *objects.PolicyObject) bool {
	note, ok := p.note.Body.(part.Annotation)
	if !ok {
		return false
	}
	status := note.Value.(annotated)
	if status.Since == nil {
		status.Since = b.since(now, contract.PolicyStatus(status))
		p.note.Body = part.Annotation{Key: note.Key, Value: status}
	}
	_, waits := b.unwritten[northbound.PolicyOwner(p.key)]
	_, dirty := b.dirty[p.key]
	if now.Noted != contract.Format(contract.PolicyStatus(status)) && !waits && !dirty {
		b.Note(p.note)
	}
	return true
}

// unwrittenStatus is the status of a policy whose rows are on their way.
type unwrittenStatus struct {
	of   objects.Key
	note part.Patch
}

// later keeps a policy's note until the rows that it speaks of are written.
func (b *Part) later(p *policyState) {
	b.unwritten[northbound.PolicyOwner(p.key)] = unwrittenStatus{p.key, p.note}
}

// Written takes in what has become of the changes of owners: a status speaks of rows that are there, and of sets that
// are and have in them whom they should. Where the Northbound has refused one of these, it is asked for later.
func (b *Part) Written(owners []ovsdb.Owner, refused *ovsdb.RefusedError) {
	for _, owner := range owners {
		status, ok := b.unwritten[owner]
		if !ok {
			continue
		}
		delete(b.unwritten, owner)
		switch p := b.all[status.of]; {
		case refused == nil:
			b.Note(status.note)
		case refused.Owners[owner] != nil: // it will come again
			p.forgetNote()
		case b.misses(p, refused):
			p.forgetNote()
			b.Expect(status.of)
		default:
			b.Note(status.note)
		}
	}
}

// misses says whether a set of a policy's was refused, or a pod in it.
func (b *Part) misses(p *policyState, refused *ovsdb.RefusedError) bool {
	if p == nil {
		return false
	}
	uses := map[ovsdb.Owner]bool{}
	for _, u := range p.uses {
		switch {
		case u.domain != "":
			uses[northbound.DomainOwner(u.domain)] = true
		case u.ofNodes:
			uses[northbound.NodeSetOwner(u.nodes)] = true
		default:
			uses[northbound.SelectionOwner(u.selection.String())] = true
		}
	}
	for owner := range refused.Owners {
		if uses[owner] {
			return true
		}
		if word, name := part.Split(owner); word == objects.PodKind.String() {
			if p, ok := b.pods.At(name); ok && slices.ContainsFunc(p.Selected().by, func(s *selectionState) bool {
				return uses[northbound.SelectionOwner(s.text)]
			}) {
				return true
			}
		}
	}
	return false
}

func marshal(v any) string {
	text, err := json.Marshal(v)
	if err != nil { // strings, numbers and times
		panic(err)
	}
	return string(text)
}

// ACLMeter bounds the log lines of policies, to [contract.ACLLogRate] of each ACL or of all: see logMeter.
const ACLMeter = "weft-acl-logging"

// logMeter is the row of ACLMeter. Of a meter that is fair, OVN makes one for each ACL. The driver of Windows nodes
// never frees a meter that has changed (OvsNewMeterCmdHandler of Meter.c), so a cluster with such nodes has one meter
// for all ACLs.
func logMeter(r *northbound.Builder, fair bool) {
	band := r.Add(nb.MeterBandTable, "acl-logging", &nb.MeterBand{Action: nb.MeterBandActionDrop,
		Rate: contract.ACLLogRate})
	r.Add(nb.MeterTable, "acl-logging", &nb.Meter{Name: ACLMeter, Unit: nb.MeterUnitPktps, Fair: &fair,
		Bands: []string{band}})
}

// logACL has an ACL logged as its namespace's annotation, or a cluster-wide policy's own, says.
func (b *Part) logACL(acl *nb.ACL, o *policy.Policy) {
	text := b.logging[o.Namespace]
	if o.Namespace == "" {
		text = b.all[objects.Key{Kind: objects.PolicyKinds[o.Kind], Name: o.Name}].object.Logging
	}
	logging, wrong := parseLogging(text)
	if wrong != "" {
		return
	}
	word := map[nb.ACLAction]string{nb.ACLActionAllowRelated: logging.Allow, nb.ACLActionDrop: logging.Deny,
		nb.ACLActionPass: logging.Pass}[acl.Action]
	if word != "" {
		severity, meter := nb.ACLSeverity(word), ACLMeter
		acl.Log, acl.Severity, acl.Meter = true, &severity, &meter
	}
}

// parseLogging reads an annotation; wrong is why it cannot be.
func parseLogging(text string) (logging contract.ACLLogging, wrong string) {
	if text == "" {
		return logging, ""
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&logging); err != nil || d.More() {
		return contract.ACLLogging{}, "is not JSON of allow, deny and pass, as {\"deny\":\"warning\"}"
	}
	if severity, wrong := logging.Wrong(); wrong {
		return logging, fmt.Sprintf("has the severity %q, which is none of alert, warning, notice, info and debug",
			objects.Quoted(severity))
	}
	return logging, ""
}

func loggingProblems(k *objects.Kind, meta *metav1.ObjectMeta, text string) []objects.Problem {
	if _, wrong := parseLogging(text); wrong != "" {
		return []objects.Problem{objects.Problemf(k, meta, badAnnotation, "annotation %s %s; nothing is logged until it "+
			"is corrected", contract.ACLLoggingAnnotation, wrong)}
	}
	return nil
}
