package wg

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// Key is a public key of WireGuard.
type Key [32]byte

// String is the key in base64, as WireGuard's own tools write it.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

func (k Key) hex() string { return hex.EncodeToString(k[:]) }

// ParseKey reads what String writes.
func ParseKey(s string) (Key, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(Key{}) {
		return Key{}, fmt.Errorf("%.60q is no WireGuard key: want 32 bytes in base64", s)
	}
	return Key(b), nil
}

// Private is a private key of WireGuard. Printing it shows nothing of it.
type Private struct{ key *ecdh.PrivateKey }

// String hides the key.
func (p Private) String() string { return "private key" }

// GoString hides the key.
func (p Private) GoString() string { return "private key" }

// Public part of the key.
func (p Private) Public() Key { return Key(p.key.PublicKey().Bytes()) }

// maxKeyFile bounds what is read of a key file.
const maxKeyFile = 256

// EnsureKey reads the private key in the file at path, and creates it if it is missing. A damaged
// file is an error that names it: with a new key this worker would be a stranger to all peers.
func EnsureKey(path string) (Private, error) {
	data, err := atomicfile.ReadBounded(path, maxKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		k, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return Private{}, fmt.Errorf("make the WireGuard key: %w", err)
		}
		if err := atomicfile.Write(path, []byte(base64.StdEncoding.EncodeToString(k.Bytes())+"\n"), 0o600); err != nil {
			return Private{}, fmt.Errorf("store the WireGuard key: %w", err)
		}
		return Private{k}, nil
	}
	if err != nil {
		return Private{}, fmt.Errorf("read the WireGuard key: %w", err)
	}
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(data)))
	if err == nil {
		var k *ecdh.PrivateKey
		if k, err = ecdh.X25519().NewPrivateKey(b); err == nil {
			return Private{k}, nil
		}
	}
	// What the decoder says may quote the key.
	return Private{}, fmt.Errorf("the WireGuard key in %s is damaged: move the file away, and a new one is made; "+
		"peers take it up by themselves", path)
}
