// Package flushes has connections of datagrams forgotten again whose endpoint is gone.
//
// ovn-controller has Open vSwitch forget the connections to an endpoint as soon as its flows are gone. Open vSwitch
// drops its cached copies of these flows a moment later, and a datagram that comes in between makes the connection
// anew: a socket that never rests would keep the endpoint for ever. So what is gone is flushed again: after a while a
// load balancer has it that meets no packet, being on a switch of routers alone, and when that goes ovn-controller
// flushes what it had. Nobody tells how long "a while" has to be, so it happens twice.
//
// A part is told which paths a Service's load balancers have ([Part.Follow]), and finds out by itself which have gone.
//
// Of packages below ovn it imports part, objects and northbound.
package flushes
