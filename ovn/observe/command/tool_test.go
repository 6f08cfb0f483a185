package command

import (
	"strings"
	"testing"

	api "github.com/weftnet/weft/models/api/observe/v1alpha1"
)

// TestOnlyReadingCommandsPass: what a hostile user gives is refused with a word of what is wrong.
func TestOnlyReadingCommandsPass(t *testing.T) {
	for _, c := range []struct {
		tool, arguments string // with a bar between them
		want            string // of the error; empty: none
	}{
		{"nbctl", "show", ""},
		{"nbctl", "show|l1", ""},
		{"nbctl", "--columns=name,up|--format=json|list|Logical_Switch_Port", ""},
		{"nbctl", "find|Logical_Switch_Port|up=false|name!=x", ""},
		{"nbctl", "lr-route-list|cluster", ""},
		{"sbctl", "--uuid|lflow-list|l1", ""},

		{"nbctl", "", "there is no command"},
		{"nbctl", "--bare", "there is no command"},
		{"nbctl", "ls-add|evil", `command "ls-add" is none`},
		{"nbctl", "set-ssl|a|b|c", `command "set-ssl" is none`},
		{"nbctl", "get-ssl", `command "get-ssl" is none`},
		{"nbctl", "wait-until|NB_Global|.|nb_cfg=9", `command "wait-until" is none`},
		{"nbctl", "sh", `command "sh" is none`},
		{"nbctl", "show|--|ls-add|evil", `argument "--" of command show`},
		{"nbctl", "show|--db=tcp:192.0.2.1:6641", `argument "--db=tcp:192.0.2.1:6641"`},
		{"nbctl", "--db=tcp:192.0.2.1:6641|show", `option "--db" of command show`},
		{"nbctl", "--log-file=/etc/passwd|show", `option "--log-file"`},
		{"nbctl", "--log|show", `option "--log"`},
		{"nbctl", "-p/etc/shadow|show", `option "-p/etc/shadow"`},
		{"nbctl", "--private-key=/x|show", `option "--private-key"`},
		{"nbctl", "--detach|show", `option "--detach"`},
		{"nbctl", "--unixctl=/run/x|show", `option "--unixctl"`},
		{"nbctl", "--id=@x|get|NB_Global|.", `option "--id"`},
		{"nbctl", "--columns|name|list|Logical_Switch", `command "name" is none`},
		{"nbctl", "--col=name|list|Logical_Switch", `option "--col"`},
		{"nbctl", "--uuid|show", `option "--uuid"`},
		{"nbctl", "lflow-list", `command "lflow-list" is none`},
		{"sbctl", "--ovs=tcp:192.0.2.1:6640|lflow-list", `option "--ovs"`},
		{"sbctl", "--stats|lflow-list", `option "--stats"`},
		{"sbctl", "chassis-del|l1", `command "chassis-del" is none`},
		{"sbctl", "get|x|" + strings.Repeat("a", maxArgument+1), "argument 3 has 1025 bytes"},
		{"sbctl", "get|\x00", "argument 2 has a NUL"},
		{"sbctl", "show" + strings.Repeat("|a", maxArguments), "33 arguments are more than 32"},
	} {
		var arguments []string
		if c.arguments != "" {
			arguments = strings.Split(c.arguments, "|")
		}
		err := Tools[c.tool].Check(arguments)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %.60q: %v, want %q", c.tool, c.arguments, err, c.want)
		}
	}
	if len(Tools) != 2 || Tools[api.NorthboundCommand] == nil || Tools[api.SouthboundCommand] == nil {
		t.Errorf("the tools are %v", Tools)
	}
}
