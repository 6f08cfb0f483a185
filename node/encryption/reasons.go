package encryption

import "github.com/weftnet/weft/models/reasons"

// Reasons of Events.
var (
	encryptionImpossible = &reasons.Event{
		Name: "EncryptionImpossible", On: "Node",
		Meaning: "The node cannot encrypt what it sends to other nodes. The message says why.",
		Remedy:  "Remove the cause that the message names.",
		See:     "encryption.md#what-a-node-does",
	}
	encryptionLeft = &reasons.Event{
		Name: "EncryptionLeft", On: "Node",
		Meaning: "encryption is off, and the node still has parts of the encryption, which the agent cannot " +
			"remove.",
		Remedy: "Remove the cause that the message names.",
		See:    "encryption.md#what-a-node-does",
	}
	peersNotEncrypted = &reasons.Event{
		Name: "PeersNotEncrypted", On: "Node",
		Meaning: "The node can encrypt, and has had no IKE_SA for a minute with the nodes whose addresses the message has. " +
			"Windows nodes are among them only if encryption is enforce.",
		Remedy: "Look at the log of charon (journalctl -u strongswan) on both nodes.",
		See:    "encryption.md#what-a-node-does",
	}
)
