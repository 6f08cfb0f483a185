package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// readyPoll is how often the agent is asked, readyAnswer how long it may take to answer.
const (
	readyPoll   = 500 * time.Millisecond
	readyAnswer = 5 * time.Second
)

// awaitReady waits until the service's agent can attach pods; else it says what the node lacks.
func awaitReady(ctx context.Context, s *mgr.Service, patience time.Duration) error {
	address, err := readinessAddress(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lacks := errors.New("the agent has not answered yet")
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		status, err := s.Query()
		if err != nil {
			return fmt.Errorf("ask for the state of service %s: %w", serviceName, err)
		}
		if status.State == svc.Stopped { // Windows will start it again; why it ended is what matters
			lacks = fmt.Errorf("service %s has ended; see the event log, source %s", serviceName, serviceName)
		} else if err := askReadiness(ctx, address); err == nil {
			return nil
		} else if ctx.Err() == nil {
			lacks = err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the node is not ready after %v: %w", patience, lacks)
		}
	}
}

// readinessAddress is where the agent that the service runs says whether it is ready.
func readinessAddress(s *mgr.Service) (string, error) {
	runs, err := serviceCommandLine(s)
	if err != nil {
		return "", fmt.Errorf("read the configuration of service %s: %w", serviceName, err)
	}
	words, err := windows.DecomposeCommandLine(runs)
	if err != nil || len(words) < 2 || words[1] != "node" {
		return "", fmt.Errorf("service %s runs %q, which is not `weft node`; run `weft service install` again", serviceName,
			runs)
	}
	cmd := nodeCommand()
	if err := cmd.ParseFlags(words[2:]); err != nil {
		return "", fmt.Errorf("flags of service %s: %w", serviceName, err)
	}
	settings, err := loadSettings(cmd)
	if err != nil {
		return "", err
	}
	address := settings.text("metrics-address")
	if err := settings.err(); err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("metrics-address: %q is where nobody can ask whether the agent is ready; set it to an "+
			"address such as 127.0.0.1:9471, or leave --ready out", address)
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serviceCommandLine asks for no more than that: mgr's Config asks for what Wine does not know, too.
func serviceCommandLine(s *mgr.Service) (string, error) {
	size := uint32(1 << 10)
	for {
		buffer := make([]byte, size)
		config := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&buffer[0]))
		err := windows.QueryServiceConfig(s.Handle, config, size, &size)
		if err == nil {
			return windows.UTF16PtrToString(config.BinaryPathName), nil
		}
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || size <= uint32(len(buffer)) {
			return "", err
		}
	}
}

func askReadiness(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, readyAnswer)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	return nil
}
