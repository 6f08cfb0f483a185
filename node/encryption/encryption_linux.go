package encryption

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/weftnet/weft/node/ipsec"
	"github.com/weftnet/weft/node/nodeconfig"
)

// newKeeper binds it to the calling thread's network namespace.
func newKeeper(c nodeconfig.Config) (Keeper, error) {
	keeper, err := ipsec.New(ipsec.Config{
		Mode: c.Encryption, Address: c.EncapAddress, Charon: c.EncryptionCharon,
		Files: ipsec.Files{CA: c.EncryptionCA, Certificate: c.EncryptionCertificate, PrivateKey: c.EncryptionPrivateKey},
	}, netns.None())
	if errors.Is(err, unix.EPROTONOSUPPORT) && !c.Encrypts() {
		return nil, nil // a kernel without XFRM, in which nothing is left of a time with encryption
	}
	if err != nil {
		return nil, fmt.Errorf("encryption: %w", err)
	}
	return keeper, nil
}
