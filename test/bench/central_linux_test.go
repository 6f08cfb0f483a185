package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weftnet/weft/ovsdb/ovsdbtest"
	"github.com/weftnet/weft/test/bench/load"
	"github.com/weftnet/weft/test/bench/ovsdblog"
)

// database is an ovsdb-server with one database, standalone, on a unix socket.
type database struct {
	dir, file, remote string
	server            *process
}

func startDatabase(b testing.TB, name, schema string) *database {
	b.Helper()
	dir := runDir(b, name)
	file := filepath.Join(dir, name+".db")
	run(b, ovnProgram(b, "ovsdb-tool"), "create", file, filepath.Join(ovsdbtest.Repository(), "models", "schemas", schema))
	return serveDatabase(b, name, dir, file)
}

// copyDatabase starts a server with a database that another one has written.
func copyDatabase(b testing.TB, name string, content []byte) *database {
	b.Helper()
	dir := runDir(b, name)
	file := filepath.Join(dir, name+".db")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		b.Fatal(err)
	}
	return serveDatabase(b, name, dir, file)
}

func serveDatabase(b testing.TB, name, dir, file string) *database {
	b.Helper()
	d := &database{dir: dir, file: file, remote: "unix:" + filepath.Join(dir, name+".sock")}
	d.server = start(b, name, dir, ovnProgram(b, "ovsdb-server"), "--remote=p"+d.remote, "--unixctl="+filepath.Join(dir,
		name+".ctl"),
		"--no-chdir", "-vconsole:warn", d.file)
	until(b, 2*time.Minute, name+" listening", d.server, func(context.Context) error {
		_, err := os.Stat(strings.TrimPrefix(d.remote, "unix:"))
		return err
	})
	return d
}

// serveAgain starts another server of the database, in the place of one that has ended.
func (d *database) serveAgain(b testing.TB) {
	b.Helper()
	*d = *serveDatabase(b, d.server.name, d.dir, d.file)
}

func startNorthbound(b testing.TB) *database { return startDatabase(b, "nb", "ovn-nb.ovsschema") }

func (d *database) size() (int64, error) {
	info, err := os.Stat(d.file)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (d *database) read(b testing.TB) *ovsdblog.Database {
	b.Helper()
	db, err := ovsdblog.Read(d.file)
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// content is what the Northbound says of a load's pods and Services.
type content struct{ pods, services, backends int }

func contentOf(db *ovsdblog.Database) content {
	var c content
	for _, port := range db.Tables["Logical_Switch_Port"] {
		if strings.HasPrefix(owner(port), "Pod/") && len(port["addresses"]) > 0 {
			c.pods++
		}
	}
	services := map[string]bool{}
	for _, lb := range db.Tables["Load_Balancer"] {
		if !strings.HasPrefix(owner(lb), "Service/") {
			continue
		}
		for vip, backends := range lb["vips"] {
			if strings.HasPrefix(vip, "10.96.") && backends != "" {
				services[owner(lb)] = true
				c.backends += 1 + strings.Count(backends, ",")
			}
		}
	}
	c.services = len(services)
	return c
}

func owner(row ovsdblog.Row) string { return row["external_ids"]["weft.net/owner"] }

func (d *database) expect(want content) error {
	db, err := ovsdblog.Read(d.file)
	if err != nil {
		return err
	}
	if got := contentOf(db); got != want {
		return fmt.Errorf("the Northbound has %+v, want %+v (ports of pods, Services with endpoints, their endpoints)", got,
			want)
	}
	return nil
}

// logicalFlows runs a northd over a Northbound and counts what it makes of it, by stage; cpu is the northd's.
func logicalFlows(b *testing.B, l load.Load, nb *database) (total int, stages map[string]int, took, cpu time.Duration) {
	b.Helper()
	sb := startSouthbound(b)
	var chassis []string
	for i := range l.Nodes {
		chassis = append(chassis, "--", "chassis-add", load.Chassis(i), "geneve", load.NodeAddress(i).String())
	}
	run(b, ovnProgram(b, "ovn-sbctl"), append([]string{"--db=" + sb.remote}, chassis[1:]...)...)
	began := time.Now()
	northd := startNorthd(b, nb, sb)
	run(b, ovnProgram(b, "ovn-nbctl"), "--db="+nb.remote, "--timeout=500", "--wait=sb", "sync")
	took = time.Since(began)
	cpu, err := northd.cpu()
	if err != nil {
		b.Fatal(err)
	}
	northd.stop(b)
	keep(b, sb)
	stages = map[string]int{}
	for _, flow := range sb.read(b).Tables["Logical_Flow"] {
		stages[flow["external_ids"]["stage-name"]]++
		total++
	}
	sb.server.stop(b)
	return total, stages, took, cpu
}
