package attach

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	networkNotAttached = &reasons.Event{
		Name: "NetworkNotAttached", On: "Pod",
		Meaning: "The pod's network interface has not come in time, or has no flows (Windows). The message says " +
			"what is missing. The agent tries again.",
		Remedy: "Do what the message says.",
		See:    "windows.md#what-to-expect",
	}
	networkAttached = &reasons.Event{
		Name: "NetworkAttached", On: "Pod",
		Meaning: "A pod's network interface that came late is attached now (Windows).",
		Normal:  true,
	}
)
