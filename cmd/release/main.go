// Command release makes the files of a release of the repository's present commit, the same bytes each time.
//
//	release -version VERSION -ldflags FLAGS [-url URL] [-sign-key KEY] FOLDER
//
// `make release` runs it, in the repository's root, with the Go version of go.mod and with the GOFLAGS and -ldflags of
// all builds. docs/releases.md describes the files.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := release(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		return 1
	}
	return 0
}

func release(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	name := flags.String("version", "", "a semantic version, such as 1.2.0 or 1.3.0-rc.1")
	ldflags := flags.String("ldflags", "", "`flags` of the linker")
	from := flags.String("url", "", "the `URL` of the folder from which the files will be downloaded; empty for that of "+
		"the repository's releases")
	key := flags.String("sign-key", "", "an OpenSSH `key` that signs the checksums; empty for no signature")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("%d arguments, not one: the folder for the files", flags.NArg())
	}
	version, err := parseVersion(*name)
	if err != nil {
		return err
	}
	downloads, err := parseDownloads(*from, version)
	if err != nil {
		return err
	}
	if err := checkKey(*key); err != nil {
		return err
	}
	source, err := cleanCommit(ctx, ".")
	if err != nil {
		return err
	}
	if err := source.checkTag(ctx, version); err != nil {
		return err
	}
	m := maker{source: source, version: version, ldflags: *ldflags, url: downloads, signKey: *key,
		stdout: stdout}
	return m.makeAll(ctx, flags.Arg(0))
}
