package attach

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	networkNotAttached = &reasons.Event{
		Name: "NetworkNotAttached", On: "Pod",
		Meaning: "The pod's network interface has not come in time, or has no flows (Windows). The message says what is " +
			"missing. The agent goes on trying.",
		Remedy: "Do what the message says.",
		See:    "windows.md",
	}
	networkAttached = &reasons.Event{
		Name: "NetworkAttached", On: "Pod",
		Meaning: "A network interface that was late is attached (Windows).",
		Normal:  true,
	}
)
