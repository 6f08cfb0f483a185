// Package status says how the network is: what the databases and the API server say of it, and what is wrong with it.
//
// [Sources.Read] asks the sources, all at a time, and each with a bound. What cannot be read is told, and the rest goes
// on. [Judge] is pure: its findings follow from what the answer shows, so whoever has the answer can check them.
//
// The cost of a reading grows with nodes, and hardly with pods that are well: of pods those are listed that wait, and
// of each port the Northbound gives the UUID alone.
package status
