package pktmon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Address is where pktmon.exe finds the driver, unless [AddressVariable] says otherwise.
const (
	Address         = "127.0.0.1:19800"
	AddressVariable = "PKTMON_ADDR"
)

const limit = time.Minute

// request is a call of the program. Log is what etl2pcap is to convert.
type request struct {
	Args []string
	Log  []byte
}

// answer is what the program prints, and how it ends. It writes the file, if there is one.
type answer struct {
	Text string
	Code int
	Path string
	File []byte
}

// Main is pktmon.exe: it runs a command, and gives its exit code.
func Main(address string, args []string, out io.Writer) int {
	said, err := call(address, args)
	if err == nil && said.Path != "" {
		err = os.WriteFile(said.Path, said.File, 0o600)
	}
	if err != nil {
		fmt.Fprintf(out, "Failed to communicate with the PktMon driver, of which this is a stand-in. %v\n", err)
		return 1
	}
	fmt.Fprint(out, said.Text)
	return said.Code
}

// MainOfTests makes a test's own program pktmon.exe where it is run with [AddressVariable]. A TestMain calls it first.
func MainOfTests() {
	if address := os.Getenv(AddressVariable); address != "" {
		os.Exit(Main(address, os.Args[1:], os.Stdout))
	}
}

func call(address string, args []string) (said answer, err error) {
	ask := request{Args: args}
	if len(args) > 1 && args[0] == "etl2pcap" && args[1] != helpWord {
		if ask.Log, err = os.ReadFile(args[1]); err != nil {
			return said, err
		}
	}
	conn, err := net.DialTimeout("tcp", address, limit)
	if err != nil {
		return said, err
	}
	defer conn.Close()
	if err := errors.Join(conn.SetDeadline(time.Now().Add(limit)), json.NewEncoder(conn).Encode(ask)); err != nil {
		return said, err
	}
	return said, json.NewDecoder(conn).Decode(&said)
}

// Serve answers calls until ctx ends.
func Serve(ctx context.Context, listener net.Listener, m *Monitor) error {
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		go func() {
			defer conn.Close()
			var ask request
			if json.NewDecoder(conn).Decode(&ask) == nil {
				_ = json.NewEncoder(conn).Encode(m.run(ask)) // the caller may be gone
			}
		}()
	}
}
