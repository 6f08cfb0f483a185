// Package dump is what a door gives to a sysdump: the rows of a database, and the metrics of nodes' agents, a line of
// JSON each (DumpRecord), without secrets.
//
// A dump is bounded in size and in time, and holds no table in memory. Where it ends early its last line says so.
package dump
