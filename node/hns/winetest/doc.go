// Package winetest runs the Windows platform's own tests, built for Windows, under Wine over the emulated
// HNS: the calls go through hcsshim, winipcfg and their DLLs to real devices and routes.
package winetest
