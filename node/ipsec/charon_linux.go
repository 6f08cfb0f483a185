package ipsec

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/strongswan/govici/vici"
)

// Commands of vici, see src/libcharon/plugins/vici/README.md of strongSwan.

// call sends a command whose answer says no more than whether it was done.
func call(ctx context.Context, session *vici.Session, command string, argument any) error {
	message, err := vici.MarshalMessage(argument)
	if err != nil {
		return err
	}
	_, err = session.Call(ctx, command, message)
	return err
}

// loadKey returns the key's ID.
func loadKey(ctx context.Context, session *vici.Session, pem []byte) (string, error) {
	message, err := vici.MarshalMessage(map[string]string{"type": "any", "data": string(pem)})
	if err != nil {
		return "", err
	}
	answer, err := session.Call(ctx, "load-key", message)
	if err != nil {
		return "", fmt.Errorf("give charon the key of encryption-private-key: %w", err)
	}
	id, _ := answer.Get("id").(string)
	return id, nil
}

// keys are the IDs of those that charon has been given.
func keys(ctx context.Context, session *vici.Session) ([]string, error) {
	answer, err := session.Call(ctx, "get-keys", nil)
	if err != nil {
		return nil, fmt.Errorf("read which keys charon has: %w", err)
	}
	ids, _ := answer.Get("keys").([]string)
	return ids, nil
}

// connections names those that charon has been told of.
func connections(ctx context.Context, session *vici.Session) ([]string, error) {
	answer, err := session.Call(ctx, "get-conns", nil)
	if err != nil {
		return nil, fmt.Errorf("read charon's connections: %w", err)
	}
	names, _ := answer.Get("conns").([]string)
	return names, nil
}

// mostAssociations is how many IKE_SAs charon may have, a few for each peer.
const mostAssociations = 1 << 13

// associations are the IKE_SAs of tunnels; session is of no use for another call of it. govici has a call for answers
// that come as events. It may take the end of the answer before the last of them, and gives up more than 128 (v0.8.0,
// clientConn.wait and dispatch). Here all events are in the channel when the end of the answer is.
func associations(ctx context.Context, session *vici.Session) ([]association, error) {
	events := make(chan vici.Event, mostAssociations)
	session.NotifyEvents(events)
	defer session.StopEvents(events)
	if err := session.Subscribe("list-sa"); err != nil {
		return nil, fmt.Errorf("read charon's SAs: %w", err)
	}
	if err := call(ctx, session, "list-sas", map[string]string{}); err != nil {
		return nil, fmt.Errorf("read charon's SAs: %w", err)
	}
	var all []association
	for range len(events) {
		message := (<-events).Message
		for _, name := range message.Keys() {
			peer, ours := peerOf(name)
			if !ours {
				continue
			}
			a := association{peer: peer}
			if section, is := message.Get(name).(*vici.Message); is {
				if err := vici.UnmarshalMessage(section, &a); err != nil {
					return nil, fmt.Errorf("read charon's SA with %v: %w", peer, err)
				}
			}
			all = append(all, a)
		}
	}
	return all, nil
}

// terminate closes associations, and does not wait until the peers know.
func terminate(ctx context.Context, session *vici.Session, associations []association) error {
	var ids []string
	for _, a := range associations {
		ids = append(ids, a.ID)
	}
	return terminateEach(ctx, session, "ike-id", ids)
}

// terminateEach closes what has these IDs, of kind "ike-id" or "child-id".
func terminateEach(ctx context.Context, session *vici.Session, kind string, ids []string) error {
	for _, id := range ids {
		err := call(ctx, session, "terminate", map[string]string{kind: id, "timeout": "-1"})
		if ctx.Err() != nil {
			return fmt.Errorf("have charon close SA %s: %w", id, err)
		}
		if err != nil { // it has just gone
			slog.DebugContext(ctx, "charon does not close an SA", kind, id, "error", err)
		}
	}
	return nil
}
