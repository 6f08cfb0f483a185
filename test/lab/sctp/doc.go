// Package sctp speaks SCTP (RFC 9260) in user space, over raw IP, with the functions of
// github.com/ishidawataru/sctp that Kubernetes' agnhost calls. agnhost is built with it, so that the lab's
// pods send, receive and refuse real SCTP packets on kernels that have no SCTP.
//
// It is as much of the protocol as a question and an answer need: one stream, one address a side, messages
// of one packet, and one of them on its way at a time.
package sctp
