package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weftnet/weft/node/unixctl"
)

// daemonControl asks a daemon of Open vSwitch or OVN by its control socket, as ovs-appctl does;
// errAbsent where none answers.
type daemonControl interface {
	Control(ctx context.Context, daemon, command string) (string, error)
	// Arguments are those of the daemon's command line.
	Arguments(ctx context.Context, daemon string) ([]string, error)
}

// ovnPair is what ovn-controller shows and trusts: by the database's row of table SSL, or, if there is none, by the
// command line (OVN's controller/ovn-controller.c, update_ssl_config). ok is false where neither says. The error tells
// why the command line is not known, nil where no ovn-controller runs.
func ovnPair(ctx context.Context, ovs vswitchReader, daemons daemonControl) (p pair, ok bool, err error) {
	if o, problem := ovs.OpenVSwitch(ctx); problem == nil && o.SSL != nil {
		return pair{Of: "Open vSwitch's", OfPeers: true, Key: o.SSL.PrivateKey, Certificate: o.SSL.Certificate,
			CA: o.SSL.CaCert}, true, nil
	}
	arguments, err := daemons.Arguments(ctx, "ovn-controller")
	if errors.Is(err, errAbsent) {
		err = nil
	}
	p = pair{Of: "ovn-controller's", OfPeers: true, Key: unixctl.Option(arguments, "--private-key", "-p"),
		Certificate: unixctl.Option(arguments, "--certificate", "-c"),
		CA: cmp.Or(unixctl.Option(arguments, "--ca-cert", "-C"),
			unixctl.Option(arguments, "--bootstrap-ca-cert", ""))}
	return p, p.Key != "" || p.Certificate != "" || p.CA != "", err
}

// vswitchVersion is the running daemon's word, "ovs-vswitchd (Open vSwitch) 3.7.1"; without it the
// database's, which not the daemon writes but a start script, and on Windows often nobody.
func vswitchVersion(ctx context.Context, daemons daemonControl, reader vswitchReader) (string, error) {
	answer, problem := daemons.Control(ctx, "ovs-vswitchd", unixctl.VersionCommand)
	if version := unixctl.Version(answer); problem == nil && version != "" {
		return version, nil
	} else if problem == nil {
		problem = fmt.Errorf("ovs-vswitchd answers %q", answer)
	}
	o, err := reader.OpenVSwitch(ctx)
	if err == nil && o.Root != nil && o.Root.OVSVersion != nil {
		return *o.Root.OVSVersion, nil
	}
	return "", fmt.Errorf("neither ovs-vswitchd nor the database says its version: %w", problem)
}
