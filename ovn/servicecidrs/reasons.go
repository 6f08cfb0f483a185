package servicecidrs

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var badServiceCIDR = &reasons.Event{
	Name: "BadServiceCIDR", On: "ServiceCIDR",
	Meaning: "A range of the ServiceCIDR cannot be used. The message says why. Services with addresses of the range " +
		"have no network.",
	Remedy: "Do what the message says. Most often that is to create a ServiceCIDR with another range in its " +
		"place.",
}
