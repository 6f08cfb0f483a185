package ovn

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var rowsRefused = &reasons.Event{
	Name: "RowsRefused", On: "any object that has rows",
	Meaning: "The OVN Northbound has refused the rows of the object, for the reason that the message gives. The rows " +
		"of all other objects are served.",
	Remedy: "Remove the cause that the message names. Weft tries again until it succeeds.",
}
