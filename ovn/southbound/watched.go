package southbound

import (
	"encoding/json"
	"fmt"
)

// watched are the monitors of a client by its names for them, with how many clauses the conditions of each table
// have. The server keeps each in mind, and looks at its conditions whenever a row changes.
type watched map[string]map[string]int

// ask says why a request is for more than a client may be told of. It leaves of params what the server gets.
func (w *watched) ask(p *peer, method string, params []json.RawMessage) error {
	switch method {
	case "monitor_cancel":
		if len(params) != 1 { // which the server would refuse, and have the monitor still
			return fmt.Errorf("method %q has one parameter, and not %d", method, len(params))
		}
		w.forget(p, string(params[0]))
		return nil
	case "monitor", "monitor_cond", "monitor_cond_since", "monitor_cond_change":
	default:
		return nil
	}
	if len(params) < 3 {
		return fmt.Errorf("method %q has %d parameters", method, len(params))
	}
	name := string(params[1])
	_, known := (*w)[name]
	switch {
	case method == "monitor_cond_change" && (!known || name != string(params[0])):
		return fmt.Errorf("there is no monitor %.60s, or it would get another name", params[0])
	case len(name) > maxMonitorName:
		return fmt.Errorf("the name of a monitor has at most %d bytes", maxMonitorName)
	}
	tables, err := monitored(params[2])
	if err != nil {
		return fmt.Errorf("what monitor %.60s is about: %w", name, err)
	}
	if !known {
		if p.monitors.Add(1) > maxMonitors {
			p.monitors.Add(-1)
			return fmt.Errorf("%w: it has %d monitors", errFull, maxMonitors)
		}
		if *w == nil {
			*w = watched{}
		}
		(*w)[name] = map[string]int{}
	}
	if err := p.widen((*w)[name], tables); err != nil {
		return err
	}
	params[2], err = json.Marshal(tables)
	return err
}

// widen counts the clauses of a monitor, which has had so many of each table, and leaves those out that are more
// than the node may have: the monitor is told of all of the table then. What it has had counts until it ends,
// since the server may refuse a change.
func (p *peer) widen(had map[string]int, tables object) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for table, raw := range tables {
		var requests []object
		var where []json.RawMessage
		if err := json.Unmarshal(raw, &requests); err != nil {
			return err
		}
		if requests[0]["where"] == nil {
			continue
		}
		if err := json.Unmarshal(requests[0]["where"], &where); err != nil {
			return err
		}
		if _, counted := had[table]; len(where) == 0 {
			continue
		} else if !counted && len(had) >= maxTables {
			return fmt.Errorf("a monitor has at most %d tables", maxTables)
		}
		more := max(0, len(where)-had[table])
		if len(where) > 1 && p.clauses[table]+more > maxClauses {
			requests[0]["where"] = everything
			tables[table], _ = json.Marshal(requests)
			continue
		}
		if p.clauses == nil {
			p.clauses = map[string]int{}
		}
		had[table] += more
		p.clauses[table] += more
	}
	return nil
}

func (w *watched) forget(p *peer, name string) {
	if had, known := (*w)[name]; known {
		p.monitors.Add(-1)
		p.mu.Lock()
		for table, clauses := range had {
			if p.clauses[table] -= clauses; p.clauses[table] == 0 {
				delete(p.clauses, table)
			}
		}
		p.mu.Unlock()
		delete(*w, name)
	}
}

// leave is the end of the client's connection.
func (w *watched) leave(p *peer) {
	for name := range *w {
		w.forget(p, name)
	}
}
