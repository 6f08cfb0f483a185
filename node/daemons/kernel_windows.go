package daemons

// The datapath of Windows counts its connections for nobody.
var kernelConnections, kernelConnectionsLimit func(*teller)
