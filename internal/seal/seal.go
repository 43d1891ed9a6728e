package seal

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

// File with the key in a data directory.
const File = "seal.key"

const (
	blockKey = "PRIVATE KEY"
	// headerPublic has the public part beside the private one: any 32 bytes are a
	// key, so one that is damaged would not be known from another.
	headerPublic = "Public"
	maxFile      = 4 << 10
	// overhead of a sealed value: an encapsulated key and a tag.
	overhead = 32 + 16
)

// ErrOtherKey: the value was not sealed for this key and purpose, or has been
// changed since.
var ErrOtherKey = errors.New("it was sealed for another key or purpose, or is damaged")

// Key opens what was sealed for its public part. It is safe for concurrent use.
type Key struct {
	private hpke.PrivateKey
	public  string
	id      string
}

// Ensure returns the key in dir, which it makes on the first call (dir too).
func Ensure(dir string) (*Key, error) {
	k, err := Load(dir)
	if !errors.Is(err, os.ErrNotExist) {
		return k, err
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a seal key: %w", err)
	}
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a seal key: %w", err)
	}
	k, err = newKey(private)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("make a seal key: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, File),
		pem.EncodeToMemory(&pem.Block{Type: blockKey, Headers: map[string]string{headerPublic: k.public}, Bytes: der}),
		0o600); err != nil {
		return nil, fmt.Errorf("make a seal key: %w", err)
	}
	return k, nil
}

// Load returns the key in dir; the error wraps os.ErrNotExist where there is
// none.
func Load(dir string) (*Key, error) {
	path := filepath.Join(dir, File)
	text, err := atomicfile.ReadBounded(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	const remedy = "restore it from a backup, or remove it: what was sealed for it has to be sealed again then"
	block, rest := pem.Decode(text)
	if block == nil || block.Type != blockKey || len(rest) > 0 {
		return nil, fmt.Errorf("%s is damaged: it does not hold exactly one private key: %s", path, remedy)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(*ecdh.PrivateKey)
	if err != nil || !ok || private.Curve() != ecdh.X25519() {
		return nil, fmt.Errorf("%s is damaged: it is not a key for X25519: %s", path, remedy)
	}
	k, err := newKey(private)
	if err != nil {
		return nil, err
	}
	if public, ok := block.Headers[headerPublic]; ok && public != k.public {
		return nil, fmt.Errorf("%s is damaged: its two halves are of different keys: %s", path, remedy)
	}
	return k, nil
}

func newKey(private *ecdh.PrivateKey) (*Key, error) {
	k, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	public := private.PublicKey().Bytes()
	return &Key{private: k, public: base64.RawURLEncoding.EncodeToString(public), id: idOf(public)}, nil
}

// Public is the public part, as text.
func (k *Key) Public() string { return k.public }

// ID names the key; see ID.
func (k *Key) ID() string { return k.id }

// Prover makes codes for what is said, for one purpose, which only the holder of its key can
// make and check.
type Prover struct{ key []byte }

// Prover of a purpose, with a key that is derived from k.
func (k *Key) Prover(purpose string) (*Prover, error) {
	secret, err := k.private.Bytes()
	if err != nil {
		return nil, fmt.Errorf("authentication codes: %w", err)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "verge mac: "+purpose, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("authentication codes: %w", err)
	}
	return &Prover{key}, nil
}

// MAC is the code for what was said. Its parts are told apart from each other.
func (p *Prover) MAC(said ...string) []byte {
	m := hmac.New(sha256.New, p.key)
	for _, s := range said {
		m.Write(fmt.Appendf(nil, "%d:%s", len(s), s))
	}
	return m.Sum(nil)
}

// Revisions makes the proofs of the revisions that a peer is told; nil for a nil Prover.
func (p *Prover) Revisions(peer string) func(wire.Rev) []byte {
	if p == nil {
		return nil
	}
	return func(r wire.Rev) []byte { return p.MAC(peer, r.Inc, strconv.FormatUint(r.N, 10)) }
}

// ID names the key whose public part is given; an error if it is none.
func ID(public string) (string, error) {
	b, err := decode(public)
	if err != nil {
		return "", err
	}
	return idOf(b), nil
}

func idOf(public []byte) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

func decode(public string) ([]byte, error) {
	const size = 32
	if len(public) > 2*size {
		return nil, errors.New("this is not the public part of a seal key")
	}
	b, err := base64.RawURLEncoding.DecodeString(public)
	if err != nil || len(b) != size {
		return nil, errors.New("this is not the public part of a seal key")
	}
	return b, nil
}

// Seal closes value for the holder of the key whose public part is given, and
// for one purpose. The same again is another text.
func Seal(public, purpose string, value []byte) ([]byte, error) {
	b, err := decode(public)
	if err != nil {
		return nil, err
	}
	point, err := ecdh.X25519().NewPublicKey(b)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	to, err := hpke.NewDHKEMPublicKey(point)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err)
	}
	sealed, err := hpke.Seal(to, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(purpose), value)
	if err != nil {
		return nil, fmt.Errorf("seal: %w", err) // a key that nobody can hold
	}
	return sealed, nil
}

// Open returns what was sealed for k and purpose, or ErrOtherKey.
func (k *Key) Open(purpose string, sealed []byte) ([]byte, error) {
	if len(sealed) < overhead {
		return nil, ErrOtherKey
	}
	value, err := hpke.Open(k.private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(purpose), sealed)
	if err != nil {
		return nil, ErrOtherKey
	}
	return value, nil
}
