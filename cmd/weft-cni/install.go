package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/weftnet/weft/models/hostfile"
)

var pluginFile = hostfile.File{Path: "{install}/weft-cni", Mode: 0o755,
	Content: "The CNI plugin itself, if a pod installs it on its host by the flag install of weft-cni.",
	Loss:    "Pods cannot start until the agent's pod starts again."}

// install copies this program into a folder of CNI plugins. A runtime that starts the plugin meanwhile starts either
// the former program or this one.
func install(folder string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.Open(path)
	if err != nil {
		return err
	}
	defer program.Close()
	scratch, err := os.CreateTemp(folder, ".weft-cni-*")
	if err != nil {
		return fmt.Errorf("install weft-cni: %w; name a folder of the host that the pod may write", err)
	}
	_, err = io.Copy(scratch, program)
	err = errors.Join(err, scratch.Chmod(pluginFile.Mode), scratch.Close())
	if err == nil {
		err = os.Rename(scratch.Name(), pluginFile.In(folder))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("install weft-cni in %s: %w", folder, err), os.Remove(scratch.Name()))
	}
	return nil
}
