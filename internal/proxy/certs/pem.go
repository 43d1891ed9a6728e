package certs

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"strings"
)

// Parse reads a chain and its private key, in PEM, in any order. The error is for
// people and has nothing of the key.
func Parse(text []byte) (*tls.Certificate, error) {
	var chain, key bytes.Buffer
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		into := &chain
		switch {
		case block.Type == "CERTIFICATE":
		case block.Type == "EC PARAMETERS": // openssl writes them before the key
			continue
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			if key.Len() > 0 {
				return nil, errors.New("there are two private keys in it")
			}
			into = &key
		default:
			continue
		}
		if err := pem.Encode(into, block); err != nil {
			return nil, errors.New("it cannot be read as PEM")
		}
	}
	switch {
	case chain.Len() == 0:
		return nil, errors.New("there is no certificate in it (PEM: BEGIN CERTIFICATE)")
	case key.Len() == 0:
		return nil, errors.New("there is no private key in it (PEM: BEGIN PRIVATE KEY)")
	}
	cert, err := tls.X509KeyPair(chain.Bytes(), key.Bytes())
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &cert, nil
}
