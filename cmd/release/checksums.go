package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

const (
	checksumsFile = "SHA256SUMS"
	// signatureNamespace keeps a signature from being taken for one of something else, as ssh-keygen(1) asks for.
	signatureNamespace = "release@weft.net"
)

// writeChecksums writes the checksums of a folder's files as `sha256sum --check` reads them.
func writeChecksums(folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var sums []byte
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return err
		}
		sums = fmt.Appendf(sums, "%x  %s\n", sha256.Sum256(content), f.Name())
	}
	return os.WriteFile(filepath.Join(folder, checksumsFile), sums, 0o644)
}

// checkKey refuses a key that is not there, before programs are compiled. Without a name there is no signature.
func checkKey(key string) error {
	if key == "" {
		return nil
	}
	if _, err := os.Stat(key); err != nil {
		return fmt.Errorf("SIGN_KEY: %w; name an OpenSSH key, which `ssh-keygen -t ed25519` makes", err)
	}
	return nil
}

// sign writes the signature of the checksums beside them, as SHA256SUMS.sig. It may ask for the key's passphrase.
func sign(ctx context.Context, folder, key string) error {
	_, err := command(ctx, ".", nil, "ssh-keygen", "-Y", "sign", "-f", key, "-n", signatureNamespace,
		filepath.Join(folder, checksumsFile))
	if err != nil {
		return fmt.Errorf("sign %s: %w", checksumsFile, err)
	}
	return nil
}
