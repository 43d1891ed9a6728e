package tokens

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Why a token is refused. The errors that this package returns wrap one of
// these, and are a *wire.Problem (errors.As) with what, why and what to do next.
var (
	ErrExpired = errors.New("join token expired")
	ErrUsed    = errors.New("join token already used")
	ErrForged  = errors.New("join token forged")
	ErrKind    = errors.New("join token of the wrong kind")
	ErrUnknown = errors.New("join token unknown")
	// ErrMalformed: the text is no token that this build can read.
	ErrMalformed = errors.New("join token malformed")
)

// Record is what the maker of a token stores. Nothing in it is secret.
type Record struct {
	V       int    `json:"v"`
	ID      string `json:"id"`
	Kind    string `json:"kind"`
	Cluster string `json:"cluster"`
	Plugin  string `json:"plugin,omitempty"`
	// SecretHash is the SHA-256 of the token's secret, in hex.
	SecretHash string    `json:"secret_hash"`
	Created    time.Time `json:"created"`
	Expires    time.Time `json:"expires"`
	// By made it; "" in records older than that.
	By string `json:"by,omitempty"`
	// UsedBy is the SHA-256 of the public key (PKIX DER) of the node that used
	// the token, in hex; "" while it is unused.
	UsedBy string    `json:"used_by,omitempty"`
	UsedAt time.Time `json:"used_at,omitzero"`
	// Gateway: the worker that joins with it may be a gateway with TLS.
	Gateway bool `json:"gateway,omitempty"`
	// Uses is how many nodes may join with it where that is more than one, Joined how
	// many have. UsedBy and UsedAt are of the last of them then, and empty before.
	Uses   int `json:"uses,omitempty"`
	Joined int `json:"joined,omitempty"`
}

// Check says whether the node with this public key (PKIX DER) may join with tok
// now: nil, or an error that wraps ErrForged, ErrKind,
// ErrExpired or ErrUsed. The same node may use its token again until
// it expires, because the reply may have been lost on the way.
//
// A token for several nodes does not know which have used it: member says that this
// one, with this key, is known already, and takes no use of it.
//
// Check and the storing of Used must be one step (compare and swap), or two
// nodes could use one token.
func (r *Record) Check(tok Token, public []byte, member bool, now time.Time) error {
	// The secret first: who doesn't have it learns nothing else.
	same := subtle.ConstantTimeCompare([]byte(hashText(tok.Secret)), []byte(r.SecretHash)) == 1
	if !same || tok.ID != r.ID || tok.Cluster != r.Cluster || tok.Plugin != r.Plugin {
		return refuse(ErrForged, 403, "token-forged", remedyNew(r.Kind, r.Cluster),
			"the join token is not genuine", "token %s exists here, but the one presented differs from it", r.ID)
	}
	if err := tok.CheckKind(r.Kind); err != nil {
		return err
	}
	if !now.Before(r.Expires) {
		return refuse(ErrExpired, 403, "token-expired", remedyNew(r.Kind, r.Cluster),
			"the join token expired", "token %s was valid until %s, it is %s here",
			r.ID, r.Expires.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if r.Uses > 1 {
		if member || r.Joined < r.Uses {
			return nil
		}
		return refuse(ErrUsed, 403, "token-used", remedyNew(r.Kind, r.Cluster),
			"the join token was already used", "token %s is good for %d nodes, and as many have joined with it; the last at %s",
			r.ID, r.Uses, r.UsedAt.UTC().Format(time.RFC3339))
	}
	if r.UsedBy != "" && r.UsedBy != hashText(string(public)) {
		return refuse(ErrUsed, 403, "token-used", remedyNew(r.Kind, r.Cluster),
			"the join token was already used", "token %s is good for one node, another one joined with it at %s",
			r.ID, r.UsedAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// Used is the record after the node with this public key joined with it; member as
// for Check.
func (r *Record) Used(public []byte, member bool, now time.Time) Record {
	used := *r
	if used.Uses > 1 {
		if member {
			return used
		}
		if used.Joined++; used.Joined < used.Uses {
			return used
		}
	}
	if used.UsedBy == "" {
		used.UsedBy, used.UsedAt = hashText(string(public)), now.UTC()
	}
	return used
}

// CheckKind is nil for a token of the wanted kind (KindCluster, KindWorker, KindPlugin),
// else an error that wraps ErrKind.
func (t Token) CheckKind(want string) error {
	if t.Kind == want {
		return nil
	}
	return refuse(ErrKind, 403, "token-kind", remedyNew(want, t.Cluster),
		"the join token is for something else", "token %s lets a %s join, this is a %s", t.ID, t.Kind, want)
}

// Unknown is the error (ErrUnknown) for a token without a record.
func Unknown(tok Token) error {
	return refuse(ErrUnknown, 403, "token-unknown", remedyNew(tok.Kind, tok.Cluster),
		"the join token is not known here", "token %s was made elsewhere, was removed, or expired long ago", tok.ID)
}

func remedyNew(kind, cluster string) string {
	switch kind {
	case KindCluster:
		return "make a new one at the root: verge token create --cluster " + cluster
	case KindPlugin:
		return "make a new one at the cluster: verge token create --plugin NAME"
	}
	return "make a new one at the cluster: verge token create --worker"
}

// refusal is a problem for the client that is also a sentinel for the caller.
type refusal struct {
	sentinel error
	problem  *wire.Problem
}

func refuse(sentinel error, status int, code, remedy, title, detail string, args ...any) error {
	return &refusal{sentinel, wire.Problemf(status, code, remedy, title, detail, args...)}
}

func (r *refusal) Error() string   { return r.problem.Error() }
func (r *refusal) Unwrap() []error { return []error{r.sentinel, r.problem} }

func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

const (
	bearerFamily = "verge-api-"
	bearerPrefix = bearerFamily + "1."
	bearerBytes  = 32
	maxBearer    = 128
)

// NewBearer makes a bearer token for the HTTP interface, and its hash: the only
// form in which it is stored.
func NewBearer() (token, hash string) {
	token = bearerPrefix + hex.EncodeToString(randomBytes(bearerBytes))
	return token, hashText(token)
}

// HashBearer is the hash under which a presented bearer token was stored. What
// cannot be one is an error that does not contain it.
func HashBearer(token string) (hash string, err error) {
	if len(token) > maxBearer || len(token) <= len(bearerPrefix) || token[:len(bearerPrefix)] != bearerPrefix {
		return "", fmt.Errorf("this is not an API token (they begin with %s): make one with verge token create --api", bearerPrefix)
	}
	return hashText(token), nil
}
