package hns

import (
	"encoding/json"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

var procHNSCall = windows.NewLazySystemDLL("vmcompute.dll").NewProc("HNSCall")

// Switch reads the network by HNS's first API. hcsshim makes the same call, but its type of a network
// has no field for the extensions, which only this API tells: an entry for each that is installed,
// {"Id": "…", "IsEnabled": false, "Name": "Microsoft NDIS Capture"}.
func (HCSShim) Switch(network string) (Switch, error) {
	var found struct {
		NetworkAdapterName string
		Extensions         []struct {
			ID        string `json:"Id"`
			Name      string
			IsEnabled bool
		}
	}
	if err := getByHNSCall("/networks/"+bareID(network), &found); err != nil {
		return Switch{}, classify(err)
	}
	s := Switch{Adapter: found.NetworkAdapterName}
	for _, e := range found.Extensions {
		s.Extensions = append(s.Extensions, Extension{ID: e.ID, Name: e.Name, Enabled: e.IsEnabled})
	}
	return s, nil
}

// getByHNSCall is HNSCall("GET", path), whose answer is {"Success": true, "Output": …} or has "Error".
func getByHNSCall(path string, output any) error {
	method, err := windows.UTF16PtrFromString("GET")
	if err != nil {
		return err
	}
	path16, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return err
	}
	body, err := windows.UTF16PtrFromString("")
	if err != nil {
		return err
	}
	var response *uint16
	hr, _, _ := procHNSCall.Call(uintptr(unsafe.Pointer(method)), uintptr(unsafe.Pointer(path16)),
		uintptr(unsafe.Pointer(body)), uintptr(unsafe.Pointer(&response)))
	if int32(hr) < 0 {
		return fmt.Errorf("HNSCall GET %s: HRESULT 0x%x: %w", path, uint32(hr), windows.Errno(uint32(hr)&0xffff))
	}
	if response == nil {
		return fmt.Errorf("HNSCall GET %s: no answer", path)
	}
	text := windows.UTF16PtrToString(response)
	windows.CoTaskMemFree(unsafe.Pointer(response))
	var answer struct {
		Success bool
		Error   string
		Output  json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return fmt.Errorf("read HNS's answer to GET %s: %w", path, err)
	}
	if !answer.Success {
		return fmt.Errorf("HNS refuses GET %s: %w", path, errors.New(answer.Error))
	}
	return json.Unmarshal(answer.Output, output)
}
