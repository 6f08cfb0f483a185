package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
	"github.com/weftnet/weft/models/contract"
	"github.com/weftnet/weft/models/reasons"
)

// When something is overdue. The clocks of hosts may differ by skew.
const (
	skew = 10 * time.Second
	// settling is how long a new object may take to have what it needs.
	settling = 2 * time.Minute
	// catchingUp is how long a chassis may take for a configuration.
	catchingUp = 30 * time.Second
	// following is how long it may take if it lacks more than one. The leader may count twice within a moment, and so does
	// whoever waits for ovn-northd or chassis by ovn-nbctl.
	following = 10 * time.Second
	// recent is how old the Warning is that is still a finding.
	recent = 10 * time.Minute
	// expiring is how long before its end a certificate is told of: the playbooks renew it then (weft_pki_renew_days).
	expiring = 30 * 24 * time.Hour
)

// notJudged is what a status does not look at, and a reader may take for a part of a network that is well.
const notJudged = "Not looked at: Services without endpoints, and policies or peers that select no pod. See " +
	"`weft trace` and `weft policy explain`."

// mostOfReason is how many findings of one reason are listed.
const mostOfReason = 5

// Judge says what is wrong with a network that has such a status: it reads all but its findings and its result. The
// worst findings are the first, and those of a reason stand together. Of many Events, the first are told.
func Judge(s *api.NetworkStatus) []api.Finding {
	j := &judgement{status: s, now: s.Time.Time}
	for _, check := range []func(){j.unread, j.databases, j.northd, j.leader, j.nodes, j.addresses, j.strays, j.pods,
		j.pools, j.egress, j.balancers, j.policies, j.events, j.certificates} {
		check()
	}
	slices.SortStableFunc(j.found, func(a, b api.Finding) int { return worse(a.Severity, b.Severity) })
	return bounded(j.found)
}

var severities = []string{api.Failed, api.Warning, api.Unknown}

func worse(a, b string) int {
	return cmp.Compare(slices.Index(severities, a), slices.Index(severities, b))
}

// resultOf is the worst severity.
func resultOf(findings []api.Finding) string {
	if len(findings) == 0 {
		return api.OK
	}
	return slices.MinFunc(findings, func(a, b api.Finding) int { return worse(a.Severity, b.Severity) }).Severity
}

// bounded keeps the first findings of each reason, and counts the others.
func bounded(all []api.Finding) []api.Finding {
	kept, last, count := []api.Finding{}, map[string]int{}, map[string]int{}
	for _, f := range all {
		key := f.Severity + f.Reason
		if count[key]++; count[key] > mostOfReason {
			kept[last[key]].More += 1 + f.More
			continue
		}
		last[key] = len(kept)
		kept = append(kept, f)
	}
	return kept
}

// judgement collects findings.
type judgement struct {
	status *api.NetworkStatus
	now    time.Time
	found  []api.Finding
}

func (j *judgement) say(severity, reason, object, remedy, format string, args ...any) {
	j.found = append(j.found, api.Finding{Severity: severity, Reason: reason, Object: object,
		Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

// ago is how long ago something was, as kubectl tells it.
func (j *judgement) ago(t time.Time) string { return duration.HumanDuration(j.now.Sub(t)) }

func (j *judgement) unread() {
	for _, u := range j.status.Unread {
		j.say(api.Unknown, "Unread", u.Source, "read the reason; if a right is missing, apply "+
			"models/api/rights/observe/rights.yaml (site.yml does)", "weft observe could not read it: %s", u.Reason)
	}
}

func (j *judgement) databases() {
	for _, d := range j.status.Databases {
		object := "database " + d.Name
		switch {
		case !d.Answers && d.Model != "":
			j.say(api.Failed, "DatabaseCutOff", object, "see that a majority of the central hosts is up and reach each "+
				"other at TCP 6643 and 6644; `verify.yml` says which member is at fault",
				"the server beside the door %s does not serve it: %s", j.status.Door, d.Reason)
		case !d.Answers:
			j.say(api.Failed, "DatabaseSilent", object, "on that central host: `systemctl status "+unitOf(d.Name)+
				" weft-observe`", "the server beside the door %s does not answer: %s", j.status.Door, d.Reason)
		}
	}
}

// unitOf is the unit of a database's server, as the playbooks name it.
func unitOf(database string) string {
	if database == Southbound {
		return "weft-sb"
	}
	return "weft-nb"
}

func (j *judgement) answers(database string) bool {
	return slices.ContainsFunc(j.status.Databases, func(d api.Database) bool { return d.Name == database && d.Answers })
}

func (j *judgement) northd() {
	if c := j.status.Configuration; c.Southbound < c.Northbound && j.answers(Northbound) {
		j.say(api.Failed, "NorthdBehind", "ovn-northd", "on the central hosts: `systemctl status weft-northd`, and "+
			"`ovn-appctl -t /run/ovn/ovn-northd.ctl status`, of which one says active",
			"it has not translated configuration %d of the Northbound, and is at %d", c.Northbound, c.Southbound)
	}
}

// expired says whether a Lease does not count any more.
func (j *judgement) expired(l api.Lease) bool {
	return j.now.Sub(l.Renewed.Time) > time.Duration(l.Seconds)*time.Second+skew
}

func (j *judgement) missed(source string) bool {
	return slices.ContainsFunc(j.status.Unread, func(u api.Unread) bool { return u.Source == source })
}

func (j *judgement) leader() {
	const remedy = "on the controllers' hosts: `systemctl status weft-controller` and its log; nothing that changes in " +
		"Kubernetes reaches the network until one leads"
	l := j.status.Leader
	switch {
	case j.missed("Leases"):
	case l.Name == "":
		j.say(api.Failed, "NoLeader", "Lease "+leaseNamespace+"/"+leaderLease, remedy+"; if the controllers have another "+
			"lease-name, this cannot be told", "it is not there: no weft controller has led")
	case l.Holder == "":
		j.say(api.Failed, "NoLeader", "Lease "+l.Name, remedy, "nobody holds it: no weft controller leads")
	case j.expired(l):
		j.say(api.Failed, "NoLeader", "Lease "+l.Name, remedy, "%s has not renewed it for %s: no weft controller leads",
			l.Holder, j.ago(l.Renewed.Time))
	}
}

func (j *judgement) nodes() {
	j.sameChassis()
	for i := range j.status.Nodes {
		n := &j.status.Nodes[i]
		object, young := "Node "+n.Name, j.now.Sub(n.Created.Time) < settling
		if !n.Ready && !young {
			j.say(api.Failed, "NodeNotReady", object, "`kubectl describe node "+n.Name+"`; on the node: `weft doctor`",
				"it is not Ready: %s", n.NotReady)
		}
		switch {
		case n.Wrong != "":
			j.say(api.Failed, "BadAnnotation", object, "remove the annotation; its writer, the agent or the controller, "+
				"writes it again", "%s", n.Wrong)
		case !young && !n.Agent && n.AgentCondition == nil:
			j.say(api.Warning, "NoAgent", object, "if Weft is to run there: `site.yml` installs it, and `weft doctor` on "+
				"the node says what is wrong", "annotation weft.net/node-facts is missing: no agent of Weft has run on it")
		case !young:
			j.agent(n, object)
			if n.Agent { // otherwise nothing says which chassis it has
				j.chassis(n, object)
			}
		}
	}
}

// sameChassis finds Nodes whose agents say the same chassis name. The Event of the one that is refused is soon gone.
func (j *judgement) sameChassis() {
	of := map[string][]string{}
	for i := range j.status.Nodes {
		if n := &j.status.Nodes[i]; n.Agent {
			of[n.Chassis] = append(of[n.Chassis], n.Name)
		}
	}
	for _, chassis := range slices.Sorted(maps.Keys(of)) {
		if names := of[chassis]; len(names) > 1 {
			j.say(api.Failed, "DuplicateChassis", "Nodes "+strings.Join(names, " and "), "on all of these nodes except one: "+
				"give external_ids:system-id of its Open_vSwitch row another value, and start ovn-controller and the agent anew",
				"their agents say the same chassis name %s: only one of them has a network for its pods", chassis)
		}
	}
}

// agent judges what the node's agent says of the node.
func (j *judgement) agent(n *api.NodeStatus, object string) {
	switch c := n.AgentCondition; {
	case c == nil || c.Ready && c.Message == "":
	case c.Ready:
		j.say(api.Warning, "AgentWarns", object, agentRemedy(c.Message, false), "its agent says: %s", c.Message)
	default:
		j.say(api.Failed, "AgentNotReady", object, agentRemedy(c.Message, true),
			"its agent has not been able to attach new pods for %s: %s", j.ago(c.Changed.Time), c.Message)
	}
}

// agentRemedy is what to do about the notes in a message of an agent. About what is no note, the message says it.
func agentRemedy(message string, problems bool) string {
	var remedies []string
	notes := contract.NotesIn(message)
	if problems || len(notes) == 0 {
		remedies = append(remedies, "do what the message says")
	}
	for _, note := range notes {
		if problems || len(notes) > 1 {
			note.Remedy = note.Name + ": " + note.Remedy
		}
		remedies = append(remedies, note.Remedy)
	}
	return strings.Join(append(remedies, "on the node: `weft doctor`"), "; ")
}

// chassis judges the chassis of a node that has an agent.
func (j *judgement) chassis(n *api.NodeStatus, object string) {
	if n.Hosted && !j.missed("Leases") {
		j.host(n, object)
	}
	switch c := j.status.Configuration; {
	case !j.answers(Southbound), n.Remote:
	case !n.Registered && n.Hosted:
		j.say(api.Failed, "NoChassis", object, "on the chassis hosts: `journalctl -u weft-chassis`; on the node: `weft.exe "+
			"doctor`", "the Southbound has no chassis %s: its ovn-controller, which a chassis host runs, does not reach it",
			n.Chassis)
	case !n.Registered:
		j.say(api.Failed, "NoChassis", object, "on the node: `systemctl status weft-ovn-controller`, and `weft doctor`; its "+
			"log says why it does not reach the Southbound (TCP 6642 of the central hosts)",
			"the Southbound has no chassis %s: its ovn-controller has not registered", n.Chassis)
	case n.Behind > 1 && j.now.Sub(c.Translated.Time) > following, // the leader counts at least once a minute
		n.Behind > 0 && j.now.Sub(c.Translated.Time) > catchingUp:
		where := "on the node: `systemctl status weft-ovn-controller` and its log"
		if n.Hosted {
			where = "on its chassis host: `journalctl -u weft-chassis`"
		}
		where += "; if many nodes are behind, on the central hosts: weft-southbound and, if there is one, weft-sb-relay"
		j.say(api.Failed, "ChassisBehind", object, where, "its ovn-controller has configuration %d, %d behind the "+
			"Southbound of %s ago: it does not run, hangs, or does not reach the Southbound", n.Configuration, n.Behind,
			j.ago(c.Translated.Time))
	}
}

func (j *judgement) host(n *api.NodeStatus, object string) {
	remedy, which := "on the chassis hosts: `systemctl status weft-chassis` and its log", ""
	if n.Zone != "" {
		which = " of zone " + n.Zone
		remedy = "on the chassis hosts" + which + ", whose key zone names it: `systemctl status weft-chassis` and its log"
	}
	switch {
	case n.Host == nil:
		j.say(api.Failed, "NoChassisHost", object, remedy, "no chassis host%s runs its ovn-controller", which)
	case n.Host.Name == "" || j.expired(*n.Host):
		j.say(api.Failed, "NoChassisHost", object, remedy+"; another one"+which+" takes the node over if there is one",
			"%s, which runs its ovn-controller, has not renewed its Lease", n.Host.Holder)
	case n.Unreachable:
		j.say(api.Failed, "AgentUnreachable", object, "open TCP 16642 of the node to the chassis hosts, and look at the "+
			"agent's log; running pods keep their flows, and new ones wait",
			"its chassis host %s does not reach its agent", n.Host.Holder)
	}
}

func (j *judgement) addresses() {
	for _, n := range j.status.Nodes {
		if n.Agent && len(n.Subnets) == 0 && n.Wrong == "" && j.now.Sub(n.Created.Time) >= settling {
			j.say(api.Failed, "NoPodSubnet", "Node "+n.Name, "`kubectl describe node` tells of an Event "+
				"that says why; give it spec.podCIDRs, set allocate-node-cidrs for the controller, or if no subnet or number is "+
				"left, remove unused Nodes or enlarge pod-cidrs (kube-controller-manager's --cluster-cidr) or join-cidrs",
				"annotation weft.net/node-network gives it no pod subnet: its pods get no network")
		}
		for _, subnet := range n.Subnets {
			if subnet.Free == 0 {
				j.say(api.Warning, "NoFreeAddress", "Node "+n.Name, "lower kubelet's maxPods, or use larger pod subnets",
					"pods have all %d addresses of its subnet %s", subnet.Used, subnet.CIDR)
			}
		}
	}
}

func (j *judgement) strays() {
	for _, name := range j.status.Strays {
		j.say(api.Warning, "StrayChassis", "chassis "+name, "if the host is gone for good, `ovn-sbctl --no-leader-only "+
			"chassis-del` with its name on a central host; if it is a node, see that its Node is there and its agent runs",
			"the Southbound has it, and it is the chassis of no Node")
	}
}

// lacks is what to say of pods that lack something. What a pod waits for when its port is up, as its image, is not
// the network's.
var lacks = map[string]struct{ reason, text, remedy string }{
	lacksAddress: {"PodsWithoutAddress", "the controller has given it no address",
		"`kubectl describe pod` tells of an Event such as NoFreeAddress; else look for a leader, and at the log of weft " +
			"controller"},
	lacksBinding: {"PodsWithoutBinding", "its port is in the Northbound, and ovn-northd has not made it known to " +
		"chassis, or not that it is up", "on the central hosts: `systemctl status weft-northd`"},
	lacksChassis: {"PodsUnclaimed", "no chassis has made its port work: its node's agent or ovn-controller does not run " +
		"or lags, or the kubelet has not asked for its network yet",
		"`kubectl describe pod` tells what the kubelet waits for; on the node: `weft doctor`, and the logs of the agent " +
			"and of ovn-controller"},
}

func (j *judgement) pods() {
	p := j.status.Pods
	for _, count := range p.Lacking {
		say, ours := lacks[count.Lacks]
		if !ours {
			continue
		}
		told := 0
		for _, w := range p.Longest {
			if w.Lacks != count.Lacks || told == mostOfReason {
				continue
			}
			told++
			j.say(api.Failed, say.reason, named("Pod", w.Namespace, w.Name), say.remedy, "it has waited on node %s for %s: %s",
				w.Node, j.ago(w.Since.Time), say.text)
		}
		if told == 0 { // others have waited longer
			j.say(api.Failed, say.reason, "Pods", say.remedy, "of some of them: %s", say.text)
			told = 1
		}
		j.found[len(j.found)-1].More = count.Pods - told
	}
	if p.Truncated {
		j.say(api.Failed, "ManyPodsWait", "Pods", "look at the other findings: something that many pods need does not work",
			"more than %d wait; the others were not counted", mostOf)
	}
}

func (j *judgement) pools() {
	for _, p := range j.status.Pools {
		j.condition("AddressPool "+p.Name, "PoolNotReady", p.Condition)
		if p.Condition.Ready && p.Free == 0 {
			j.say(api.Warning, "PoolUsedUp", "AddressPool "+p.Name, "add a range to spec.ranges", "Services have all %d "+
				"addresses", p.Used)
		}
	}
}

func (j *judgement) egress() {
	for _, e := range j.status.EgressIPs {
		j.condition("EgressIP "+e.Name, "EgressNotReady", e.Condition)
	}
}

// condition judges the condition Ready of an object.
func (j *judgement) condition(object, reason string, c api.Condition) {
	switch {
	case !c.Current:
		j.pending(object, c)
	case !c.Ready:
		j.say(api.Failed, reason, object, "correct what the message names", "%s: %s", c.Reason, c.Message)
	}
}

// pending is about an object of which Weft has not said what became of it.
func (j *judgement) pending(object string, c api.Condition) {
	if j.now.Sub(c.Changed.Time) >= settling {
		j.say(api.Warning, "NothingSaid", object, "ask again; if it stays, look for a leader, and at the log of weft "+
			"controller", "Weft has not said what became of its latest change")
	}
}

func (j *judgement) balancers() {
	for _, b := range j.status.LoadBalancers {
		if b.Pool && len(b.Addresses) == 0 && j.now.Sub(b.Created.Time) >= settling {
			j.say(api.Warning, "NoLoadBalancerAddress", named("Service", b.Namespace, b.Name), "`kubectl describe service` "+
				"tells of an Event that says why; give an AddressPool more ranges", "no AddressPool has given it an address")
		}
	}
}

func (j *judgement) policies() {
	for _, p := range j.status.NotInForce {
		object := named(p.Kind, p.Namespace, p.Name)
		switch c := p.Condition; {
		case !c.Current:
			j.pending(object, c)
		case p.InForce:
			j.say(api.Warning, "PolicyPartlyInForce", object, "correct what the message names", "%s: %s", c.Reason, c.Message)
		default:
			j.say(api.Failed, "PolicyNotInForce", object, "correct what the message names", "%s: %s", c.Reason, c.Message)
		}
	}
}

// limits are reasons of Warnings about what a node cannot do by its nature: they are no faults, and have no remedy.
var limits = []string{"WindowsDatapath"}

func (j *judgement) events() {
	if j.status.EventsTruncated {
		j.say(api.Unknown, "ManyWarnings", "Events", "`kubectl get events -A --field-selector type=Warning` shows whose "+
			"they are; end what writes them", "there are more Warnings of Weft than weft observe reads: of the namespaces "+
			"with the most, some are missing")
	}
	for _, e := range j.status.Events {
		if j.isFinding(e) {
			j.say(api.Warning, "Event", e.Object, explained(e), "%s, %s ago, %s: %s", e.Reason, j.ago(e.Last.Time),
				times(e.Count), strings.TrimSpace(e.Message))
		}
	}
}

func (j *judgement) isFinding(e api.EventGroup) bool { return reported(e, j.now) && !j.outdated(e) }

// reported says whether Events are a finding, unless something else is known of their object: they are recent, and of a
// reason that Weft has, and their object exists.
func reported(e api.EventGroup, now time.Time) bool {
	return !e.Gone && now.Sub(e.Last.Time) <= recent && reasons.IsWarning(e.Reason) && !slices.Contains(limits, e.Reason)
}

// explained is the remedy of a Warning. It does not send the reader to the message, which others can write, too.
func explained(e api.EventGroup) string {
	remedy := "docs/reference/events.md says what to do about " + e.Reason
	if strings.HasPrefix(e.Object, "Node ") {
		remedy += "; on the node: `weft doctor`"
	}
	return remedy
}

// outdated says whether an Event is an agent's on its Node, whose condition says what is so now.
func (j *judgement) outdated(e api.EventGroup) bool {
	return e.Component == agentComponent && slices.ContainsFunc(j.status.Nodes, func(n api.NodeStatus) bool {
		return e.Object == "Node "+n.Name && n.AgentCondition != nil
	})
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func (j *judgement) certificates() {
	for _, c := range j.status.Certificates {
		left, object := c.Expires.Sub(j.now), "certificate "+c.Of
		remedy := "`certificates.yml` renews it, except in a Secret of the chart"
		if c.Of == "tunnel-ca" {
			remedy = "`certificates.yml` renews no authority: docs/operations.md says how to rotate it"
		}
		switch {
		case left <= 0:
			j.say(api.Failed, "CertificateExpired", object, remedy, "%s expired %s ago", c.Subject, j.ago(c.Expires.Time))
		case left < expiring:
			j.say(api.Warning, "CertificateExpires", object, remedy, "%s expires in %s", c.Subject,
				duration.HumanDuration(left))
		}
	}
}
