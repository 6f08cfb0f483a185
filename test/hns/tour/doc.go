// Package tour goes through hcsshim and winipcfg, unmodified, in tests that are built for Windows and
// run under Wine over the emulator by the tests of package hns.
package tour
