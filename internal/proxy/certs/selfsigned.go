package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Files of the authority of self-signed certificates. AuthorityFile is what a client
// may be told to trust.
const (
	AuthorityFile = "self-signed.pem"
	authorityKey  = "self-signed.key"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	maxFile       = 64 << 10
)

// issuer makes certificates that nobody trusts who was not told to.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// openIssuer reads the authority in dir, or makes it where there is none or it
// expires soon.
func openIssuer(dir string, now time.Time) (*issuer, error) {
	chain, err := atomicfile.ReadBounded(filepath.Join(dir, AuthorityFile), maxFile)
	if errors.Is(err, os.ErrNotExist) {
		return makeIssuer(dir, now)
	}
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	key, err := atomicfile.ReadBounded(filepath.Join(dir, authorityKey), maxFile)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %s is damaged: remove it, a new one is made "+
			"then", filepath.Join(dir, AuthorityFile))
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !now.Add(soon).Before(pair.Leaf.NotAfter) {
		return makeIssuer(dir, now)
	}
	return &issuer{pair.Leaf, signer}, nil
}

func makeIssuer(dir string, now time.Time) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "Verge gateway, self-signed"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
	}
	// The key first: a certificate without it would have to be removed by hand.
	for _, f := range []struct {
		name, block string
		der         []byte
	}{{authorityKey, "PRIVATE KEY", keyDER}, {AuthorityFile, "CERTIFICATE", der}} {
		if err := atomicfile.Write(filepath.Join(dir, f.name),
			pem.EncodeToMemory(&pem.Block{Type: f.block, Bytes: f.der}), 0o600); err != nil {
			return nil, fmt.Errorf("authority of self-signed certificates: %w", err)
		}
	}
	return &issuer{cert, key}, nil
}

// issue makes the certificate of a host.
func (i *issuer) issue(host string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate of %s: %w", host, err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial(), DNSNames: []string{host},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, i.cert, &key.PublicKey, i.key)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate of %s: %w", host, err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("self-signed certificate of %s: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{der, i.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it ends the program rather than fail
	b[0] &= 0x7f
	return new(big.Int).SetBytes(b[:])
}
