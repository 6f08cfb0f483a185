package doctor

import (
	"strings"
	"testing"
)

func TestServicesWaitForHyperV(t *testing.T) {
	services := func(all ...string) fakeWindows { // each NAME:DEPENDENCY,…
		f := fakeWindows{services: map[string]service{}}
		for _, one := range all {
			name, list, _ := strings.Cut(one, ":")
			f.services[name] = service{DependsOn: strings.FieldsFunc(list, func(r rune) bool { return r == ',' })}
		}
		return f
	}
	for _, c := range []struct {
		name   string
		host   fakeWindows
		states string
		words  string
	}{
		{"as the role makes them", services("ovsdb-server:vmms", "ovs-vswitchd:ovsdb-server"), "ok",
			"ovsdb-server, and that for vmms"},
		{"by itself", services("ovsdb-server:", "ovs-vswitchd:ovsdb-server,VMMS"), "ok", "waits for vmms"},
		{"the database alone", services("ovsdb-server:vmms", "ovs-vswitchd:"), "warning", "depend= vmms"},
		{"the daemon for the database alone", services("ovsdb-server:hns", "ovs-vswitchd:ovsdb-server"), "warning",
			"sc.exe config ovs-vswitchd depend= ovsdb-server/vmms"},
		{"no service of the database", services("ovs-vswitchd:ovsdb-server"), "warning", "depend= ovsdb-server/vmms"},
		{"no services", services(), "unknown", "there is no service ovs-vswitchd"},
		{"no rights", fakeWindows{broken: errBroken}, "unknown", "broken"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkDependencies(c.host), c.states, c.words) })
	}
}
