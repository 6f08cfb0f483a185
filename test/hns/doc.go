// Package hns emulates the Windows Host Networking Service on Linux, for programs that run under Wine:
// unmodified hcsshim calls computenetwork.dll and vmcompute.dll, and those of this package (dll/)
// forward to it. [Service] is the state machine; a [DataPlane] makes networks and endpoints real with
// taps and network namespaces. docs/windows-hns.md names the source of each behaviour.
package hns
