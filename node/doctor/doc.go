// Package doctor examines a node, before Weft is installed on it and after, and says what is wrong and
// what to do about it. It changes nothing.
//
// A check is a function from what it reads, behind an interface of its own, to findings. Those of both
// systems are compiled and tested on every system; only the readers are the system's own. What cannot be
// read is no finding of "ok": the check says that it cannot tell, and why.
package doctor
