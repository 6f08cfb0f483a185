package node

import (
	"github.com/vishvananda/netns"

	"github.com/weftnet/weft/node/ipsec"
)

// newTunnelKeeper binds it to the calling thread's network namespace.
func newTunnelKeeper(c Config) (tunnelKeeper, error) {
	return ipsec.New(ipsec.Config{
		Mode: c.Encryption, Address: c.EncapAddress, Charon: c.EncryptionCharon,
		Files: ipsec.Files{CA: c.EncryptionCA, Certificate: c.EncryptionCertificate, PrivateKey: c.EncryptionPrivateKey},
	}, netns.None())
}
