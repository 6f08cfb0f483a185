package nodeconfig

import (
	"strings"
	"testing"

	"github.com/weftnet/weft/node/ipsec"
)

func TestBridgeIsBesideTheDatabase(t *testing.T) {
	c := validConfig()
	c.OVSDatabase = "unix:/run/other/db.sock,unix:/run/third/db.sock"
	if endpoint, err := c.OpenFlow(); err != nil || endpoint.String() != "unix:/run/other/br-int.mgmt" {
		t.Errorf("br-int is reached at %v, %v", endpoint, err)
	}
	c.OVSDatabase = "tcp:127.0.0.1:6640"
	if endpoint, err := c.OpenFlow(); err == nil {
		t.Errorf("br-int is reached at %v beside no socket", endpoint)
	}
}

func TestEncryptionIsValidated(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"encryption: \"yes\"":                 func(c *Config) { c.Encryption = "yes" },
		"needs datapath-type \"system\"":      func(c *Config) { c.DatapathType = DatapathNetdev },
		"encryption-ca: \"ca.crt\" is not":    func(c *Config) { c.EncryptionCA = "ca.crt" },
		"encryption-certificate: \"\" is not": func(c *Config) { c.EncryptionCertificate = "" },
	} {
		c := validConfig()
		c.Encryption, c.EncryptionCharon = ipsec.Enforce, "/run/charon.vici"
		c.EncryptionCA, c.EncryptionCertificate, c.EncryptionPrivateKey = "/ca", "/crt", "/key"
		c.DatapathType = DatapathSystem
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
