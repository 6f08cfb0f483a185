package southbound

import (
	"encoding/json"
	"fmt"
)

// watched is what the server tells a client of, and keeps in mind for it: monitors by the client's names, of each table the most bytes
// that its conditions have had. That the server has taken new ones is not known here, so no smaller ones count.
type watched map[string]map[string]int

// ask says why a request is for more than a client may be told of.
func (w *watched) ask(p *peer, method string, params []json.RawMessage) error {
	switch method {
	case "monitor_cancel":
		if len(params) > 0 {
			w.forget(p, string(params[0]))
		}
		return nil
	case "monitor", "monitor_cond", "monitor_cond_since", "monitor_cond_change":
	default:
		return nil
	}
	if len(params) < 3 {
		return fmt.Errorf("method %q has %d parameters", method, len(params))
	}
	name := string(params[1])
	tables, known := (*w)[name]
	switch {
	case method == "monitor_cond_change" && (!known || name != string(params[0])):
		return fmt.Errorf("there is no monitor %.60s, or it would get another name", params[0])
	case len(name) > maxMonitorName:
		return fmt.Errorf("the name of a monitor has at most %d bytes", maxMonitorName)
	case !known && len(*w) >= maxMonitors:
		return fmt.Errorf("a connection has at most %d monitors", maxMonitors)
	}
	var asked object
	if err := json.Unmarshal(params[2], &asked); err != nil {
		return fmt.Errorf("what monitor %.60s is about: %w", name, err)
	}
	more := 0
	for table, conditions := range asked {
		more += max(0, len(table)+len(conditions)-tables[table])
	}
	if p.conditions.Add(int64(more)) > maxConditions {
		p.conditions.Add(int64(-more))
		return fmt.Errorf("all that a node is told of has at most %d bytes of conditions", maxConditions)
	}
	if tables == nil {
		tables = map[string]int{}
	}
	for table, conditions := range asked {
		tables[table] = max(tables[table], len(table)+len(conditions))
	}
	if *w == nil {
		*w = watched{}
	}
	(*w)[name] = tables
	return nil
}

func (w *watched) forget(p *peer, name string) {
	for _, bytes := range (*w)[name] {
		p.conditions.Add(int64(-bytes))
	}
	delete(*w, name)
}

// leave is the end of the client's connection.
func (w *watched) leave(p *peer) {
	for name := range *w {
		w.forget(p, name)
	}
}
