package tokens

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/pki"
)

// Kinds of join tokens.
const (
	KindCluster = "cluster" // join a root as the cluster that the token names
	KindWorker  = "worker"  // join the cluster that the token names
	KindPlugin  = "plugin"  // be a scheduler plugin of the cluster that the token names
)

const (
	tokenVersion = 1
	tokenFamily  = "verge-join-"
	tokenPrefix  = tokenFamily + "1."

	// maxBytes bounds the text of a token.
	maxBytes = 4096
	// maxTokenFile leaves room for line breaks and blanks around it.
	maxTokenFile  = 8 << 10
	maxTokenAddrs = 16
	tokenSecret   = 16 // bytes
	tokenID       = 8  // bytes
)

// Token is what a node needs to join: where, how to recognise the right server
// before it has any certificate, and a secret that is good for one node. Use
// Encode for the text to hand over; printing or logging a Token shows no secret.
type Token struct {
	V    int    `json:"v"`
	Kind string `json:"kind"`
	// Cluster that the node becomes (KindCluster) or belongs to.
	Cluster string `json:"cluster"`
	// Plugin that it is, of KindPlugin; else "".
	Plugin string `json:"plugin,omitempty"`
	// Addrs are the addresses (host:port) of the HTTPS endpoint, 1 to 16.
	Addrs []string `json:"addrs"`
	// Name is the TLS server name of the endpoint, Pin the SHA-256 of the root
	// CA's public key in hex: see PinnedClient.
	Name string `json:"name"`
	Pin  string `json:"pin"`
	// NextPin is that of the CA which is about to replace it; "" if there is none.
	NextPin string `json:"next_pin,omitempty"`
	// ID finds the Record; it is no secret.
	ID      string    `json:"id"`
	Secret  string    `json:"secret"`
	Expires time.Time `json:"expires"`
	// Gateway is not in the text, which its holder could change: who checks a token takes
	// it from the record.
	Gateway bool `json:"-"`
}

// New makes a token that is valid for ttl from now, and the record that
// its maker has to store. The secret is in the token alone.
func New(kind, cluster string, addrs []string, serverName, pin string, ttl time.Duration, now time.Time) (Token, Record, error) {
	return newToken(kind, cluster, "", addrs, serverName, pin, ttl, now)
}

// NewPlugin is New for a plugin of a cluster.
func NewPlugin(cluster, plugin string, addrs []string, serverName, pin string, ttl time.Duration,
	now time.Time) (Token, Record, error) {
	return newToken(KindPlugin, cluster, plugin, addrs, serverName, pin, ttl, now)
}

func newToken(kind, cluster, plugin string, addrs []string, serverName, pin string, ttl time.Duration,
	now time.Time) (Token, Record, error) {
	t := Token{
		V: tokenVersion, Kind: kind, Cluster: cluster, Plugin: plugin, Addrs: addrs, Name: serverName, Pin: pin,
		ID:      hex.EncodeToString(randomBytes(tokenID)),
		Secret:  base64.RawURLEncoding.EncodeToString(randomBytes(tokenSecret)),
		Expires: now.Add(ttl).UTC().Truncate(time.Second),
	}
	if err := t.validate(); err != nil {
		return Token{}, Record{}, fmt.Errorf("make a join token: %w", err)
	}
	if n := len(t.Encode()); n > maxBytes {
		return Token{}, Record{},
			fmt.Errorf("make a join token: %d characters are more than %d: give fewer addresses", n, maxBytes)
	}
	return t, Record{
		V: tokenVersion, ID: t.ID, Kind: kind, Cluster: cluster, Plugin: plugin,
		SecretHash: hashText(t.Secret), Created: now.UTC(), Expires: t.Expires,
	}, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// Pins are the pins of the authorities that the server may belong to.
func (t Token) Pins() []string {
	if t.NextPin == "" {
		return []string{t.Pin}
	}
	return []string{t.Pin, t.NextPin}
}

// Follow is the token for a root whose authority is being rotated: it works with
// the next one too. "" changes nothing.
func (t Token) Follow(nextPin string) Token {
	t.NextPin = nextPin
	return t
}

// String describes the token without its secret.
func (t Token) String() string {
	return fmt.Sprintf("join token %s (%s, cluster %s, until %s)", t.ID, t.Kind, t.Cluster, t.Expires.Format(time.RFC3339))
}

// GoString is String: %#v shows no secret either.
func (t Token) GoString() string { return t.String() }

// LogValue is String: a logged token shows no secret.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Encode is the text that Parse reads. It contains the secret.
func (t Token) Encode() string {
	data, err := json.Marshal(t)
	if err != nil {
		return "" // strings, a number and a time before the year 10000
	}
	// The checksum is for tokens copied by hand: it finds every wrong character
	// and every swap of neighbours, which a hash of this length would not
	// promise. A forged token is found by the secret.
	data = binary.LittleEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(data)
}

// Parse reads the text of a join token; blanks and line breaks in it don't
// matter. Errors wrap ErrMalformed, are a *wire.Problem that says what is
// wrong, and never contain the token.
func Parse(text string) (Token, error) {
	const (
		again   = "copy the whole token again, or make a new one: verge token create"
		upgrade = "make the token with the same version of verge, or upgrade the older side"
	)
	if len(text) > maxTokenFile {
		return Token{}, malformed(again, "it is too long (%d characters)", len(text))
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	switch {
	case text == "":
		return Token{}, malformed("put the output of verge token create there", "it is empty")
	case strings.HasPrefix(text, bearerFamily):
		return Token{}, malformed("make one for joining: verge token create --worker (or --cluster NAME)", "it is a token for the API")
	case strings.HasPrefix(text, tokenFamily) && !strings.HasPrefix(text, tokenPrefix):
		return Token{}, malformed(upgrade, "it has a version that this build does not know (want %d)", tokenVersion)
	case !strings.HasPrefix(text, tokenPrefix):
		return Token{}, malformed(again, "this is not a join token (they begin with %s)", tokenPrefix)
	case len(text) > maxBytes:
		return Token{}, malformed(again, "it is too long (%d characters)", len(text))
	}
	const damaged = "it is damaged (cut off or mistyped)"
	// Strict: without it the last character could change unnoticed.
	data, err := base64.RawURLEncoding.Strict().DecodeString(text[len(tokenPrefix):])
	if err != nil || len(data) < crc32.Size {
		return Token{}, malformed(again, damaged)
	}
	body, sum := data[:len(data)-crc32.Size], data[len(data)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(sum) {
		return Token{}, malformed(again, damaged)
	}
	var t Token
	if err := json.Unmarshal(body, &t); err != nil {
		return Token{}, malformed(again, damaged)
	}
	if err := t.validate(); err != nil {
		return Token{}, malformed(upgrade, "%v", err)
	}
	return t, nil
}

func malformed(remedy, detail string, args ...any) error {
	return refuse(ErrMalformed, 400, "token-malformed", remedy, "the join token cannot be used", detail, args...)
}

func (t Token) validate() error {
	if t.V != tokenVersion {
		return fmt.Errorf("it has version %d, this build knows %d", t.V, tokenVersion)
	}
	switch t.Kind {
	case KindCluster, KindWorker:
		if t.Plugin != "" {
			return fmt.Errorf("it is for a %s and names a plugin", t.Kind)
		}
	case KindPlugin:
		if err := pki.CheckLabel(t.Plugin); err != nil {
			return fmt.Errorf("plugin: %w", err)
		}
	default:
		return fmt.Errorf("it is for %.20q, want %s, %s or %s", t.Kind, KindCluster, KindWorker, KindPlugin)
	}
	if err := pki.CheckLabel(t.Cluster); err != nil {
		return fmt.Errorf("cluster: %w", err)
	}
	if len(t.Addrs) == 0 || len(t.Addrs) > maxTokenAddrs {
		return fmt.Errorf("it has %d addresses, want 1 to %d", len(t.Addrs), maxTokenAddrs)
	}
	for _, a := range t.Addrs {
		if err := checkAddr(a); err != nil {
			return err
		}
	}
	// Every endpoint has one of two names, and a token could otherwise send a
	// node to any server that this root ever certified.
	if t.Name != pki.RootName && t.Name != pki.ClusterName(t.Cluster) {
		return fmt.Errorf("it names the server %.80q, want %s or %s", t.Name, pki.RootName, pki.ClusterName(t.Cluster))
	}
	for _, f := range []struct {
		what, value string
		bytes       int
		decode      func(string) ([]byte, error)
	}{
		{"pin", t.Pin, 32, hex.DecodeString},
		{"id", t.ID, tokenID, hex.DecodeString},
		{"secret", t.Secret, tokenSecret, base64.RawURLEncoding.Strict().DecodeString},
	} {
		if raw, err := f.decode(f.value); err != nil || len(raw) != f.bytes {
			return fmt.Errorf("its %s is not %d bytes in the expected form", f.what, f.bytes)
		}
	}
	if raw, err := hex.DecodeString(t.NextPin); err != nil || (len(raw) != 32 && t.NextPin != "") {
		return errors.New("its next_pin is not 32 bytes in the expected form")
	}
	if t.Expires.IsZero() || t.Expires.Year() > 9999 {
		return errors.New("it has no usable expiry")
	}
	return nil
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && (n == 0 || host == "" || len(host) > 253) {
			err = errors.New("want host:port")
		}
	}
	if err != nil {
		return fmt.Errorf("address %.80q of the token: %w", addr, err)
	}
	return nil
}

// Read reads a join token from the file at path, or from stdin where path
// is "-". At most 8 KiB are read. The warning is for the user ("" if there is
// none): other users of the machine can read the file.
func Read(path string, stdin io.Reader) (t Token, warning string, err error) {
	text, warning, err := ReadSecret(path, stdin)
	if err != nil {
		return Token{}, "", err
	}
	t, err = Parse(text)
	if err != nil {
		return Token{}, "", fmt.Errorf("%s: %w", sourceName(path), err)
	}
	return t, warning, nil
}

// ReadSecret reads a short secret text (a join or bearer token) as Read
// does, without looking at it.
func ReadSecret(path string, stdin io.Reader) (text, warning string, err error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return "", "", fmt.Errorf("token file: %w", err)
		}
		defer func() { _ = f.Close() }() // only read
		fi, err := f.Stat()
		if err != nil {
			return "", "", fmt.Errorf("token file: %w", err)
		}
		if fi.Mode().IsRegular() && fi.Mode().Perm()&0o044 != 0 {
			warning = fmt.Sprintf("token file %s can be read by other users (mode %04o): chmod 600 %s", path, fi.Mode().Perm(), path)
		}
		in = f
	}
	data, err := atomicfile.ReadAllBounded(in, maxTokenFile)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", sourceName(path), err)
	}
	return string(data), warning, nil
}

func sourceName(path string) string {
	if path == "-" {
		return "token from standard input"
	}
	return "token file " + path
}
