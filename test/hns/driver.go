package hns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Driver is Open vSwitch's driver, as far as Hyper-V has to do with it.
type Driver interface {
	// Apply tells it how the switch is. It is told again what it knows already.
	Apply(SwitchState) error
}

// SwitchState is what the driver and ovs-vswitchd depend on.
type SwitchState struct {
	Extension bool // Open vSwitch's is enabled on a switch
	VMMS      bool // Hyper-V's management service runs
}

// ExtensionEmulator is the driver that test/hyperv emulates.
type ExtensionEmulator struct {
	// Control is its control socket. One that does not run reads File when it starts.
	Control string
	// File keeps the state of the switch, as Windows does.
	File string
}

// driverTime bounds one word to the emulator.
const driverTime = 5 * time.Second

// Apply implements [Driver].
func (d ExtensionEmulator) Apply(state SwitchState) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.File+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(d.File+".new", d.File); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), driverTime)
	defer cancel()
	for _, words := range [][]string{{"vmms", onOff(state.VMMS)}, {"extension", onOff(state.Extension)}} {
		_, err := Tell(ctx, d.Control, words)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", words, err)
		}
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// ReadSwitchState reads the file of an [ExtensionEmulator]. Before HNS has written it no switch has the extension.
func ReadSwitchState(file string) (SwitchState, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return SwitchState{VMMS: true}, nil
	}
	var state SwitchState
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return state, fmt.Errorf("read how the switch is: %w", err)
	}
	return state, nil
}
