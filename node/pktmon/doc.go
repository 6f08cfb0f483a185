// Package pktmon captures packets on Windows by Packet Monitor, the system's own pktmon.exe
// (https://learn.microsoft.com/windows-server/administration/windows-commands/pktmon).
//
//	Start ──► list --json ──► filter add … ──► start ──► Finish: stop, etl2pcap ──► a file of pcapng ──► Close
//
// Packet Monitor has one session and one list of filters for the whole machine, so whatever the package has not made is
// left alone. Its own session is the one that writes the package's file, and its filters have the package's name. A
// process that dies in a capture leaves both, and the next one ends them ([Monitor.Reclaim]).
//
// Packet Monitor's messages are in the language of Windows. Read of them are only paths, numbers, how many lines there
// are, and JSON.
package pktmon
