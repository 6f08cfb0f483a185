package southbound

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
)

// northd fills the Southbound by a real ovn-northd: a switch with 1,000 ports, among them one of l1 and one of
// each node that may be stolen, with 2,000 rules and as many sets of addresses, for chassis that can do all that
// ovn-northd asks for.
func (s *southbound) northd() {
	database := ovsdbtest.Northbound(s)
	nb := ovsdbtest.Server(s, database)
	s.stolenChassis()
	for _, node := range slices.Concat(stolenNodes, []string{"l1", "l2"}) {
		ovsdbtest.Run(s, "ovn-sbctl", strings.Fields("--db="+s.server.Endpoint+" set Chassis "+node+" "+able)...)
	}
	operations, ports, rules := []string{`"OVN_Northbound"`}, []string{}, []string{}
	port := func(name, node string) {
		id := fmt.Sprint("p", len(ports))
		ports = append(ports, `["named-uuid","`+id+`"]`)
		operations = append(operations, fmt.Sprintf(`{"op":"insert","table":"Logical_Switch_Port","uuid-name":%q,`+
			`"row":{"name":%q,"options":["map",[["requested-chassis",%q]]],`+
			`"addresses":"0a:00:00:00:%02[4]x:%02[5]x 10.0.%[4]d.%[5]d"}}`,
			id, name, node, len(ports)>>8, len(ports)&255))
	}
	port("pod1", "l1")
	for _, node := range stolenNodes {
		port("port-"+node, node)
	}
	for i := len(ports); i < 1000; i++ {
		port(fmt.Sprint("more", i), "l1")
	}
	for i := range 2000 {
		id := fmt.Sprint("r", i)
		rules = append(rules, `["named-uuid","`+id+`"]`)
		operations = append(operations,
			fmt.Sprintf(`{"op":"insert","table":"ACL","uuid-name":%q,"row":{"direction":"to-lport","priority":%d,`+
				`"match":"ip4.src == $set%d","action":"allow-related"}}`, id, i, i),
			fmt.Sprintf(`{"op":"insert","table":"Address_Set","row":{"name":"set%d","addresses":["set",[%s]]}}`, i, hundred(i)))
	}
	operations = append(operations, `{"op":"insert","table":"Logical_Switch","row":{"name":"big",`+
		`"ports":["set",[`+strings.Join(ports, ",")+`]],"acls":["set",[`+strings.Join(rules, ",")+`]]}}`)
	answer, err := ask(s.dialled(nb.Endpoint), "transact", "["+strings.Join(operations, ",")+"]")
	if err != nil || strings.Contains(answer, `"error":"`) {
		s.Fatal(answer[max(0, len(answer)-1000):], err)
	}
	ovsdbtest.Northd(s, nb, s.server)
	find := func() string {
		out := ovsdbtest.Run(s, "ovn-sbctl", "--db="+s.server.Endpoint, "--bare", "--columns=_uuid",
			"find", "Port_Binding", "logical_port=pod1")
		return strings.TrimSpace(out)
	}
	old := find()
	s.until("ovn-northd has not written all", func() bool {
		return find() != "" && find() != old && !strings.HasSuffix(s.rowsOf(stolenNodes[0]), ",")
	})
	s.names = strings.NewReplacer("{pod1}", find())
}

// able is what the chassis of an ovn-controller that can do all says of itself.
const able = "other_config:ct-no-masked-label=true other_config:mac-binding-timestamp=true " +
	"other_config:port-up-notif=true other_config:ct-commit-nat-v2=true other_config:ct-commit-to-zone=true " +
	"other_config:fdb-timestamp=true other_config:ls-dpg-column=true other_config:ct-next-zone=true"

// hundred are addresses of the n-th set.
func hundred(n int) string {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf(`"10.%d.%d.%d"`, n>>8, n&255, i))
	}
	return strings.Join(list, ",")
}
