package doctor

import (
	"bytes"
	"crypto/x509"
	"debug/pe"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
)

// errUnsigned: the file has no signature of its own. A driver then is signed by a catalog that lists it.
var errUnsigned = errors.New("the file has no signature of its own")

// The PE format's place for signatures, and the kind that Windows uses.
const (
	directorySecurity = 4      // IMAGE_DIRECTORY_ENTRY_SECURITY
	typePKCS          = 0x0002 // WIN_CERT_TYPE_PKCS_SIGNED_DATA
	certificateHeader = 8      // length, revision, type
	mostSignature     = 1 << 20
)

// embeddedSignature is the PKCS #7 structure at the end of a signed program or driver. The directory's
// address is, unlike all others, an offset in the file.
func embeddedSignature(file io.ReaderAt) ([]byte, error) {
	image, err := pe.NewFile(file)
	if err != nil {
		return nil, err
	}
	var directory pe.DataDirectory
	switch header := image.OptionalHeader.(type) {
	case *pe.OptionalHeader64:
		directory = header.DataDirectory[directorySecurity]
	case *pe.OptionalHeader32:
		directory = header.DataDirectory[directorySecurity]
	}
	if directory.Size == 0 {
		return nil, errUnsigned
	}
	if directory.Size < certificateHeader || directory.Size > mostSignature {
		return nil, fmt.Errorf("its signature claims %d bytes", directory.Size)
	}
	entry := make([]byte, directory.Size)
	if _, err := file.ReadAt(entry, int64(directory.VirtualAddress)); err != nil {
		return nil, fmt.Errorf("read its signature: %w", err)
	}
	length := binary.LittleEndian.Uint32(entry)
	if kind := binary.LittleEndian.Uint16(entry[6:]); kind != typePKCS {
		return nil, fmt.Errorf("its signature is of the unknown kind %d", kind)
	}
	if length < certificateHeader || length > directory.Size {
		return nil, fmt.Errorf("its signature claims %d bytes of %d", length, directory.Size)
	}
	return entry[certificateHeader:length], nil
}

// signedData is what is needed of PKCS #7's (RFC 2315, 9.1). encoding/asn1 skips what follows the named
// fields of a sequence.
type signedData struct {
	Version          int
	DigestAlgorithms asn1.RawValue
	ContentInfo      asn1.RawValue
	Certificates     asn1.RawValue `asn1:"optional,tag:0"`
	Lists            asn1.RawValue `asn1:"optional,tag:1"`
	Signers          []signerInfo  `asn1:"set"`
}

type signerInfo struct {
	Version int
	ID      struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
}

var oidSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}

// signerOf is the certificate by which a PKCS #7 structure, also a whole catalog, was signed. It says
// who claims to have signed: whether the signature is right Windows has to say.
func signerOf(pkcs7 []byte) (*x509.Certificate, error) {
	var outer struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue `asn1:"explicit,tag:0"`
	}
	if _, err := asn1.Unmarshal(pkcs7, &outer); err != nil {
		return nil, fmt.Errorf("the signature is no PKCS #7: %w", err)
	}
	if !outer.Type.Equal(oidSignedData) {
		return nil, fmt.Errorf("the signature is of type %v and not signed data", outer.Type)
	}
	var data signedData
	if _, err := asn1.Unmarshal(outer.Content.Bytes, &data); err != nil {
		return nil, fmt.Errorf("read the signed data: %w", err)
	}
	if len(data.Signers) == 0 {
		return nil, errors.New("nobody has signed it")
	}
	for rest := data.Certificates.Bytes; len(rest) > 0; {
		var raw asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &raw); err != nil {
			return nil, fmt.Errorf("read the signature's certificates: %w", err)
		}
		certificate, err := x509.ParseCertificate(raw.FullBytes)
		if err != nil {
			continue // one that Go refuses, such as a time stamp's of old
		}
		id := data.Signers[0].ID
		if bytes.Equal(certificate.RawIssuer, id.Issuer.FullBytes) && certificate.SerialNumber.Cmp(id.Serial) == 0 {
			return certificate, nil
		}
	}
	return nil, errors.New("the signature does not hold its signer's certificate")
}
