package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/containernetworking/cni/pkg/types"
)

// Client sends verbs to the agent over connections that Dial makes.
type Client struct {
	Dial func(ctx context.Context) (net.Conn, error)
}

// ErrUnreachable: no agent answers. What was asked may or may not have been done.
var ErrUnreachable = errors.New("the weft agent does not answer")

// Do returns the agent's answer to verb: the JSON of a result for ADD. A refusal is a
// *[types.Error]; an agent that cannot be reached, or that ends meanwhile, is [ErrUnreachable].
func (c *Client) Do(ctx context.Context, verb Verb, request Request) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, decodingFailure("network configuration", err)
	}
	transport := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
		DisableKeepAlives: true,
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent"+pathPrefix+string(verb),
		bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	ask.Header.Set("Content-Type", "application/json")
	response, err := transport.RoundTrip(ask)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if response.StatusCode == http.StatusOK {
		return answer, nil
	}
	var refusal types.Error
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Msg == "" {
		return nil, types.NewError(types.ErrIOFailure, fmt.Sprintf("the weft agent answered %s with %s", verb,
			response.Status), string(answer))
	}
	return nil, &refusal
}
