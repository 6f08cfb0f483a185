// Command judge makes up pods and policies for a real cluster, and says which connections the policies allow.
//
//	judge -seed N -nodes NODE,… -image IMAGE pods    manifests of namespaces and pods
//	judge -seed N -set N policies                    manifests of a set of policies about them
//	judge verdicts                                   reads a List as JSON, and prints a verdict a line
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/weftnet/weft/test/oracle"
)

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

func run() error {
	seed := flag.Uint64("seed", 1, "what all follows from")
	set := flag.Uint64("set", 0, "the number of the set of policies")
	nodes := flag.String("nodes", "", "the nodes of the pods, separated by commas")
	image := flag.String("image", "", "agnhost")
	flag.Parse()
	r := oracle.NewReal(*seed)
	switch verb := flag.Arg(0); verb {
	case "pods":
		fmt.Print(r.Pods(strings.Split(*nodes, ","), *image))
	case "policies":
		fmt.Print(r.Policies(*set))
	case "verdicts":
		return verdicts()
	default:
		return fmt.Errorf("no such verb: %q. Verbs are pods, policies and verdicts", verb)
	}
	return nil
}

func verdicts() error {
	var list corev1.List
	if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	all, err := oracle.Judge(list)
	for _, v := range all {
		if err := json.NewEncoder(os.Stdout).Encode(v); err != nil {
			return err
		}
	}
	return err
}
