package contract

// MaxCookies is how many an agent is asked about at once.
const MaxCookies = 1 << 16

// CountersRequest is what `weft observe` asks a node's agent, as JSON, once a stream. A cookie is that of OVN's
// OpenFlow flows: the first 32 bits of the UUID of a row of Logical_Flow.
type CountersRequest struct {
	Cookies []uint32 `json:"cookies"`
}

// CountersReply is the agent's answer, after which it ends the stream.
type CountersReply struct {
	// Counters are those of the cookies that flows of br-int have.
	Counters []Counter `json:"counters"`
	// Error says why there are none.
	Error string `json:"error,omitempty"`
}

// Counter is what all flows of a cookie have counted since they were made.
type Counter struct {
	Cookie  uint32 `json:"cookie"`
	Packets uint64 `json:"packets"`
	Bytes   uint64 `json:"bytes"`
}
