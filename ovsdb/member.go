package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const serverMonitor = "weft-server"

// member is what a server's _Server database says of a database: a row of table Database.
type member struct {
	name, model       string
	connected, leader bool
	// cluster is the cluster's UUID as the server writes it, and index the last change of RAFT's log that the
	// server has; 0 where it is not a cluster's member.
	cluster string
	index   int
}

// follow refuses a cluster's member that is not its leader, where it has to be, or that is behind what was read
// before, and asks to hear when that changes. A server without the _Server database has no clusters.
func (c *Client) follow(ctx context.Context, s *session) error {
	text, err := s.call(ctx, "list_dbs", nil)
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	var names []string
	scan := &scanner{text: text}
	scan.array(func(int) { names = append(names, scan.str()) })
	if scan.err != nil {
		return fmt.Errorf("list databases: %w", scan.err)
	}
	if !slices.Contains(names, c.config.Model.Name()) {
		return fmt.Errorf("the server has no database %s", c.config.Model.Name())
	}
	if !slices.Contains(names, "_Server") {
		return nil
	}
	result, err := s.call(ctx, "monitor",
		[]byte(`"_Server","`+serverMonitor+`",{"Database":{"columns":["name","model","connected","leader","cid","index"]}}`))
	if err != nil {
		return fmt.Errorf("ask for the server's role: %w", err)
	}
	return c.judge(result)
}

var (
	errNotLeader = errors.New("the server does not lead its cluster")
	errCutOff    = errors.New("the server is cut off from its cluster")
)

// judge reads <table-updates> of _Server's Database table, and says why the server will not do.
func (c *Client) judge(updates []byte) error {
	var problem error
	s := &scanner{text: updates}
	s.object(func(string) {
		s.object(func(string) {
			s.object(func(kind string) {
				if kind != "new" {
					s.skip()
					return
				}
				if m := readMember(s); s.err == nil && m.name == c.config.Model.Name() && m.model == "clustered" {
					problem = c.accept(m)
				}
			})
		})
	})
	if s.err != nil {
		return fmt.Errorf("read the server's role: %w", s.err)
	}
	return problem
}

func readMember(s *scanner) member {
	m := member{connected: true, leader: true}
	s.object(func(column string) {
		switch column {
		case "name":
			m.name = s.str()
		case "model":
			m.model = s.str()
		case "connected":
			m.connected = s.boolean()
		case "leader":
			m.leader = s.boolean()
		case "cid":
			m.cluster = string(s.raw())
		case "index":
			if s.peek() == '[' { // the empty set
				s.skip()
			} else {
				m.index = s.integer()
			}
		default:
			s.skip()
		}
	})
	return m
}

// accept says why a cluster's member will not do. What it has is what any other one must have from now on: a member
// that lags would show the past again, of what was acted upon already. Another cluster counts anew, as one
// that was made of a backup.
func (c *Client) accept(m member) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !m.connected:
		return errCutOff
	case !m.leader && !c.config.AnyMember:
		return errNotLeader
	case m.cluster == c.cluster && m.index < c.index:
		return fmt.Errorf("the server lags behind its cluster: it has change %d of the log, and %d was read before", m.index,
			c.index)
	}
	c.cluster, c.index = m.cluster, m.index
	return nil
}
