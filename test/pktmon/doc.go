// Package pktmon stands in for Packet Monitor, the packet capture of Windows, on the lab's Windows nodes and in tests.
//
// What is found as pktmon.exe carries its arguments, and the log that it is to convert, to loopback inside the machine,
// where a [Monitor] is what the driver is on Windows. That has one session and one list of filters for all who call,
// and outlives them. In the lab its packets are those of the node's own network devices, which HNS's emulator has made:
// [Links]. Tests plant theirs: [Planted].
//
// Commands, parameters and what they do are those of Microsoft's reference, "pktmon" of the Windows commands
// (https://learn.microsoft.com/windows-server/administration/windows-commands/pktmon), as far as the agent uses them:
// list --json, filter add, list and remove, start --capture, status, stop, etl2pcap, and help. Whatever else is asked
// for is refused, and so is what the reference gives no meaning. The texts are those that people have published of
// Windows Server 2025 (build 26100): the tables of filters, the parameters of a running session, and the lines about
// lost events and about a session that is there already, or is not.
//
// Assumed, without a source:
//   - a command that is refused ends with the exit code 1;
//   - an adapter's address is the value of a property in `list --json`, with hyphens;
//   - a filter with an address of an adapter lets pass what comes from it or goes to it.
//
// Its log is no ETL. Only the stand-in can read it.
package pktmon
