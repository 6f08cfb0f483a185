package southbound

import (
	"encoding/json"
	"fmt"
)

// watched are the monitors of a client by its names for them. The server keeps each in mind, and looks at its conditions whenever a row changes.
type watched map[string]struct{}

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
	if params[2], err = json.Marshal(tables); err != nil || known {
		return err
	}
	if p.monitors.Add(1) > maxMonitors {
		p.monitors.Add(-1)
		return fmt.Errorf("%w: it has %d monitors", errFull, maxMonitors)
	}
	if *w == nil {
		*w = watched{}
	}
	(*w)[name] = struct{}{}
	return nil
}

func (w *watched) forget(p *peer, name string) {
	if _, known := (*w)[name]; known {
		p.monitors.Add(-1)
		delete(*w, name)
	}
}

// leave is the end of the client's connection.
func (w *watched) leave(p *peer) {
	for name := range *w {
		w.forget(p, name)
	}
}
