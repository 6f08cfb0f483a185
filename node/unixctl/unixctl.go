// Package unixctl runs commands of Open vSwitch's and OVN's daemons by their control sockets, as
// ovs-appctl does (ovs-appctl(8); lib/unixctl.c).
package unixctl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/weftnet/weft/node/local"
	"github.com/weftnet/weft/ovsdb"
)

// maxAnswer bounds what a daemon may answer, in bytes, unless more is asked for.
const maxAnswer = 1 << 20

// request is the id of the only request on a connection.
const request = 0

// Call runs a command by a daemon's control socket, and returns what [Run] returns. The socket is a path, or
// "tcp:HOST:PORT" where something passes connections on to the socket.
func Call(ctx context.Context, socket, command string, args ...string) (string, error) {
	return CallWithin(ctx, maxAnswer, socket, command, args...)
}

// CallWithin is [Call] for a command whose answer may be longer, of at most so many bytes.
func CallWithin(ctx context.Context, limit int64, socket, command string, args ...string) (string, error) {
	conn, err := dial(ctx, socket)
	if err != nil {
		return "", err
	}
	return run(ctx, limit, conn, command, args...)
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	if address, isTCP := strings.CutPrefix(socket, "tcp:"); isTCP {
		return local.Dial(ctx, ovsdb.Endpoint{Scheme: "tcp", Address: address})
	}
	return local.DialSocket(ctx, socket)
}

// Run sends a command on a new connection to a control socket, which it closes, and returns the
// daemon's answer as it is. A daemon's refusal is an error with its words. It ends with ctx.
func Run(ctx context.Context, conn net.Conn, command string, args ...string) (string, error) {
	return run(ctx, maxAnswer, conn, command, args...)
}

// run is Run for an answer of at most limit bytes.
func run(ctx context.Context, limit int64, conn net.Conn, command string, args ...string) (string, error) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if args == nil {
		args = []string{} // JSON's null is no list
	}
	if err := json.NewEncoder(conn).Encode(map[string]any{"id": request, "method": command, "params": args}); err != nil {
		return "", fmt.Errorf("%s: %w", command, err)
	}
	var reply struct {
		ID     *int    `json:"id"`
		Result *string `json:"result"`
		Error  *string `json:"error"`
	}
	answer := &io.LimitedReader{R: conn, N: limit}
	switch err := json.NewDecoder(answer).Decode(&reply); {
	case err != nil && answer.N == 0:
		return "", fmt.Errorf("%s: the answer has more than %d bytes", command, limit)
	case err != nil:
		return "", fmt.Errorf("%s: %w", command, err)
	}
	switch {
	case reply.ID == nil || *reply.ID != request:
		return "", fmt.Errorf("%s: the answer is not to this request", command)
	case reply.Error != nil:
		return "", errors.New(cmp.Or(*reply.Error, command+": refused without a reason"))
	case reply.Result == nil:
		return "", fmt.Errorf("%s: the answer has neither a result nor an error", command)
	}
	return *reply.Result, nil
}
