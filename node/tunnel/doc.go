// Package tunnel carries byte streams from a chassis host to the agent of a node whose
// ovn-controller runs there: each to the node's OVSDB or to br-int's management connection.
//
//	ovn-controller ── unix socket ── [Dial] ══ TLS 1.3 over TCP ══ [Serve] ── OVSDB or br-int of the node
//
// One TLS connection is one stream. The ALPN protocol names what it leads to, and both ends show a
// certificate with the name that the other one asks for. Once the handshake is over the serving end
// sends its verdict, see [Error]: TLS itself could tell the dialling end no more than "bad
// certificate", and nothing at all of a node whose Open vSwitch is down. Then bytes pass as they come;
// the end of one direction is passed on, and a peer that vanished without a word is noticed within
// seconds.
package tunnel
