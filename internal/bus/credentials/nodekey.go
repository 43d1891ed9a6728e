package credentials

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// CheckUserKey says whether s is the public half of a user key.
func CheckUserKey(s string) error {
	if !nkeys.IsValidPublicUserKey(s) {
		return fmt.Errorf("%.60q is not a public user key of the bus", s)
	}
	return nil
}

// Key is the bus key of a node. The private half stays in the file and in
// memory; it is never printed.
type Key struct {
	pair   nkeys.KeyPair
	public string
}

const maxKeyFile = 1024

// LoadOrCreateKey returns the key in the file, which it makes (mode 0600) if
// there is none. The folder must exist.
func LoadOrCreateKey(path string) (Key, error) {
	data, err := atomicfile.ReadBounded(path, maxKeyFile)
	if errors.Is(err, os.ErrNotExist) {
		seed, err := newSeed(nkeys.CreateUser)
		if err != nil {
			return Key{}, err
		}
		if err := atomicfile.Write(path, []byte(seed+"\n"), 0o600); err != nil {
			return Key{}, fmt.Errorf("store bus key: %w", err)
		}
		data = []byte(seed)
	} else if err != nil {
		return Key{}, fmt.Errorf("read bus key: %w", err)
	}
	key, err := parseKey([]byte(strings.TrimSpace(string(data))))
	if err != nil {
		return Key{}, fmt.Errorf("bus key in %s is damaged: delete the file and let the node join again", path)
	}
	return key, nil
}

func parseKey(seed []byte) (Key, error) {
	kp, err := nkeys.FromSeed(seed)
	if err != nil {
		return Key{}, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return Key{}, err
	}
	return Key{pair: kp, public: pub}, CheckUserKey(pub)
}

// Public returns the public half: what an authority is told.
func (k Key) Public() string { return k.public }

// String returns the public half, so that printing a Key is harmless.
func (k Key) String() string { return k.public }

// LogValue is the public half.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.public) }

// IsZero says that there is no key.
func (k Key) IsZero() bool { return k.pair == nil }

// Sign signs a server's nonce.
func (k Key) Sign(nonce []byte) ([]byte, error) {
	if k.pair == nil {
		return nil, errors.New("no bus key")
	}
	return k.pair.Sign(nonce)
}
