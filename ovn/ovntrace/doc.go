// Package ovntrace runs ovn-trace, the simulator of OVN's logical flows (ovn-trace(8)), and reads what it prints.
//
// What it is told is made of typed values: a packet has addresses and numbers, and the name of its port is checked and
// quoted. No text of a user becomes an option or an expression.
package ovntrace
