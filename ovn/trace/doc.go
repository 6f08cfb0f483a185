// Package trace says what becomes of the first packet of a connection, and of the answer to it, in Kubernetes' words.
//
// The truth is the Southbound. [Tracer.Trace] has ovn-trace follow the packet through its logical flows, and tells what
// the flows stand for: by their hints (external_ids:stage-hint) they lead to rows of the Northbound, and by the marks
// of these to policies and Services.
//
// What conntrack does to an answer, ovn-trace cannot know: it has no connections. So what the request has translated is
// translated back here, and the step says so.
//
// Whose names an answer has is decided by [May], which is asked before each.
package trace
