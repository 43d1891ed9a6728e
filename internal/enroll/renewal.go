package enroll

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// challengeLife is how long a node has to sign a challenge.
	challengeLife = 2 * time.Minute
	// renewPause is the least time between two certificates of one node, so that
	// none can keep its tier busy with signing and storing.
	renewPause = 5 * time.Second
)

// CodeTooSoon is the code of the problem for a node that was certified a moment ago.
const CodeTooSoon = "renewed-just-now"

// Enroller checks requests over HTTP to renew a certificate or to leave. Its challenges are
// valid for one process only. It is safe for concurrent use.
type Enroller struct {
	server string // TLS name of the server, which the signature covers
	key    [32]byte
	start  time.Time
}

// NewEnroller returns the Enroller of a server with a TLS name.
func NewEnroller(server string) *Enroller {
	e := &Enroller{server: server, start: time.Now()}
	_, _ = rand.Read(e.key[:]) // never fails
	return e
}

// Challenge returns a value that was never signed before. It is stateless: it carries its
// age, and a code that only this Enroller can make.
func (e *Enroller) Challenge() rpc.Challenge {
	b := make([]byte, 8, 8+16+sha256.Size)
	binary.BigEndian.PutUint64(b, uint64(time.Since(e.start)))
	b = b[:8+16]
	_, _ = rand.Read(b[8:]) // never fails
	return rpc.Challenge{Challenge: base64.RawURLEncoding.EncodeToString(append(b, e.code(b)...))}
}

func (e *Enroller) code(b []byte) []byte {
	mac := hmac.New(sha256.New, e.key[:])
	mac.Write(b)
	return mac.Sum(nil)
}

func (e *Enroller) fresh(challenge string) bool {
	b, err := base64.RawURLEncoding.DecodeString(challenge)
	if err != nil || len(b) != 8+16+sha256.Size || !hmac.Equal(e.code(b[:24]), b[24:]) {
		return false
	}
	return time.Since(e.start)-time.Duration(binary.BigEndian.Uint64(b)) < challengeLife
}

// Check says whether the sender of a renewal over HTTP has the key that it asks
// for. Whether that key is registered is another question.
func (e *Enroller) Check(req rpc.RenewRequest) error {
	return e.check(req, ProofText(e.server, req), "the renewal is refused", "it is tried again by itself")
}

// CheckLeave checks that the sender has the key of the node that leaves.
func (e *Enroller) CheckLeave(req rpc.LeaveRequest) error {
	return e.check(req.RenewRequest, LeaveText(e.server, req), "the worker stays", "try again")
}

func (e *Enroller) check(req rpc.RenewRequest, text, title, remedy string) error {
	if err := wire.CheckVersion("the request", req.V); err != nil {
		return wire.Problemf(400, "wire-version", "use the same version of verge on both sides", title, "%v", err)
	}
	if !e.fresh(req.Challenge) {
		return wire.Problemf(409, "stale-challenge", remedy, title,
			"what was signed was not given out here in the last %s", challengeLife)
	}
	if err := pki.CheckProof(req.PublicKey, text, req.Signature); err != nil {
		return wire.Problemf(403, "bad-proof", remedy, title, "%v", err)
	}
	return nil
}

// ProofText is what a node signs to renew at the server with a TLS name: all
// that the request claims, so that nothing of it can be used for another. What it
// holds is no claim: the server only compares it.
func ProofText(server string, req rpc.RenewRequest) string {
	return strings.Join([]string{"renew", server, req.Challenge, req.Name, pki.KeyHash(req.PublicKey), req.NatsKey,
		req.Version}, "\n")
}

// LeaveText is what a node signs to leave.
func LeaveText(server string, req rpc.LeaveRequest) string {
	return strings.Join([]string{"leave", strconv.FormatBool(req.Force), ProofText(server, req.RenewRequest)}, "\n")
}

// Registered is what a tier has on record about a node.
type Registered struct {
	// What it is, in words, and how it joins again.
	What, Again string
	// KeyHash and NatsKey that it joined with.
	KeyHash, NatsKey string
	// Expires is when the last certificate that it was given does.
	Expires time.Time
	// Renewed is when that was, by the monotonic clock of this process; zero: not
	// by this process.
	Renewed time.Time
}

// MayRenew says whether a registered node may be certified again at a time; nil,
// or a problem for both sides.
func (r Registered) MayRenew(req rpc.RenewRequest, now time.Time) error {
	switch {
	case r.KeyHash != pki.KeyHash(req.PublicKey) || r.NatsKey != req.NatsKey:
		return wire.Problemf(403, rpc.CodeUnknown, "join again with a new token: "+r.Again, "the renewal is refused",
			"%s is registered with another key", r.What)
	case now.After(r.Expires.Add(pki.RenewGrace)):
		return wire.Problemf(403, rpc.CodeTooLate, "join again with a new token: "+r.Again, "the renewal is refused",
			"the certificate of %s expired on %s; that is more than %d days ago", r.What,
			r.Expires.UTC().Format(time.DateOnly), int(pki.RenewGrace.Hours()/24))
	case !r.Renewed.IsZero() && time.Since(r.Renewed) < renewPause:
		return wire.Problemf(429, CodeTooSoon, "wait some seconds and try again", "the renewal is refused",
			"%s was certified a moment ago", r.What)
	}
	return nil
}

// keepLeast is how long a certificate must last to be kept by a node that asks
// whether it may: half of the life of a worker's, the time to renew it.
const keepLeast = pki.LeafTTL / 2

// Keeps says whether what the node holds, as it says, is what it would be given:
// its certificate, of those who vouch for it, see HeldID.
func (r Registered) Keeps(req rpc.RenewRequest, now time.Time, vouch ...string) bool {
	return req.Holds != "" && req.Holds == HeldID(r.Expires, vouch...) && now.Before(r.Expires.Add(-keepLeast))
}

// HeldID names a certificate by what the tier above remembers of it: until when it
// is valid, and who vouches for it.
func HeldID(expires time.Time, vouch ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(vouch, "\n")))
	return fmt.Sprintf("%d.%x", expires.Unix(), sum[:16])
}

// Gone is why a key was revoked, as recorded by the tier that removed it from the registry.
type Gone struct {
	V int `json:"v"`
	// Name of the worker or cluster; Removed: with its record, else only its key.
	Name    string    `json:"name"`
	Removed bool      `json:"removed,omitempty"`
	At      time.Time `json:"at"`
	// NatsKey of it, which is refused too.
	NatsKey string `json:"nats_key,omitempty"`
	// Until is when every certificate for the key has become useless.
	Until time.Time `json:"until"`
}

// Problem tells the holder of the key; what is "worker NAME of cluster NAME".
func (g Gone) Problem(what, again string) *wire.Problem {
	if g.Removed {
		return wire.Problemf(403, rpc.CodeRemoved, "to use it again, join with a new token: "+again,
			"this node was removed", "%s was taken out on %s; what it ran was placed elsewhere", what,
			g.At.UTC().Format(time.DateTime))
	}
	return wire.Problemf(403, rpc.CodeRevoked, "join again with a new token: "+again,
		"the key of this node was revoked", "the key of %s was revoked on %s", what, g.At.UTC().Format(time.DateTime))
}

// Unknown is the problem for a key without a record.
func Unknown(what, again string) *wire.Problem {
	return wire.Problemf(403, rpc.CodeUnknown, "join again with a new token: "+again, "this node is not known here",
		"%s is not registered", what)
}
