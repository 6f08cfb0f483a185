package doctor

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"debug/pe"
	"encoding/asn1"
	"encoding/binary"
	"errors"
	"math/big"
	"testing"
	"time"
)

// pkcs7 is signed data by a certificate's issuer and serial number; its signature itself is left out.
func pkcs7(t testing.TB, issuer []byte, serial *big.Int, certificates ...[]byte) []byte {
	t.Helper()
	null := asn1.RawValue{Tag: asn1.TagSet, IsCompound: true}
	data := signedData{Version: 1, DigestAlgorithms: null, ContentInfo: asn1.RawValue{Tag: asn1.TagSequence,
		IsCompound: true}}
	data.Certificates = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true,
		Bytes: bytes.Join(certificates, nil)}
	data.Lists = asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 1, IsCompound: true}
	info := signerInfo{Version: 1}
	info.ID.Issuer, info.ID.Serial = asn1.RawValue{FullBytes: issuer}, serial
	data.Signers = []signerInfo{info}
	inner, err := asn1.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	outer, err := asn1.Marshal(struct {
		Type    asn1.ObjectIdentifier
		Content asn1.RawValue
	}{oidSignedData, asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, IsCompound: true, Bytes: inner}})
	if err != nil {
		t.Fatal(err)
	}
	return outer
}

// driverImage is the least that is a 64-bit program, with an entry in its security directory.
func driverImage(t testing.TB, signature []byte) []byte {
	t.Helper()
	var image bytes.Buffer
	stub := make([]byte, 0x40)
	copy(stub, "MZ")
	binary.LittleEndian.PutUint32(stub[0x3c:], uint32(len(stub)))
	image.Write(stub)
	image.WriteString("PE\x00\x00")
	header := pe.OptionalHeader64{Magic: 0x20b, NumberOfRvaAndSizes: 16}
	end := image.Len() + binary.Size(pe.FileHeader{}) + binary.Size(header)
	var entry []byte
	if signature != nil {
		entry = binary.LittleEndian.AppendUint32(nil, uint32(certificateHeader+len(signature)))
		entry = binary.LittleEndian.AppendUint16(entry, 0x0200)
		entry = append(binary.LittleEndian.AppendUint16(entry, typePKCS), signature...)
		header.DataDirectory[directorySecurity] = pe.DataDirectory{VirtualAddress: uint32(end), Size: uint32(len(entry))}
	}
	for _, part := range []any{pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64,
		SizeOfOptionalHeader: uint16(binary.Size(header))}, header, entry} {
		if err := binary.Write(&image, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return image.Bytes()
}

func TestSignerOfADriver(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, now.Add(-time.Hour), now.Add(time.Hour))
	der, _ := sign(t, &x509.Certificate{SerialNumber: big.NewInt(77),
		Subject: pkix.Name{CommonName: "WDKTestCert builder"}, NotBefore: now, NotAfter: now.Add(time.Hour)}, a)
	signed := pkcs7(t, a.certificate.RawSubject, big.NewInt(77), a.certificate.Raw, der)

	found, err := embeddedSignature(bytes.NewReader(driverImage(t, signed)))
	if err != nil || !bytes.Equal(found, signed) {
		t.Fatalf("%d bytes and not %d: %v", len(found), len(signed), err)
	}
	certificate, err := signerOf(found)
	if err != nil || certificate.Subject.CommonName != "WDKTestCert builder" {
		t.Errorf("%v, %v", certificate, err)
	}
	if _, err := embeddedSignature(bytes.NewReader(driverImage(t, nil))); !errors.Is(err, errUnsigned) {
		t.Errorf("an unsigned one: %v", err)
	}
	if _, err := signerOf(pkcs7(t, a.certificate.RawSubject, big.NewInt(78), der)); err == nil {
		t.Error("a signer whose certificate is missing was found")
	}
}

func FuzzSignature(f *testing.F) {
	f.Add(driverImage(f, []byte("x")), pkcs7(f, []byte{0x30, 0}, big.NewInt(1)))
	f.Fuzz(func(t *testing.T, image, signature []byte) {
		if found, err := embeddedSignature(bytes.NewReader(image)); err == nil && len(found) > len(image) {
			t.Errorf("a signature of %d bytes in %d", len(found), len(image))
		}
		if certificate, err := signerOf(signature); err == nil && certificate == nil {
			t.Error("neither signer nor error")
		}
	})
}
