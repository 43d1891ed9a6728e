package enroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	joinedFile   = "joined.json"
	busKeyFile   = "bus.key"
	maxJoined    = 256 << 10
	joinPatience = 2 * time.Minute
	// maxTokenTTL is the longest that a token can be asked to be valid.
	maxTokenTTL = 30 * 24 * time.Hour
)

// Node is what wants to join.
type Node struct {
	// Dir keeps the identity.
	Dir string
	// Kind of token that is needed (pki.KindCluster, pki.KindWorker).
	Kind string
	Name string
	// TokenFile holds the token; "-" reads it from Stdin; "" there is none.
	TokenFile string
	Stdin     io.Reader
	Areas     []string
	Version   string
	// Public is the node's TLS key (PKIX DER); Save stores the certificate for it.
	Public []byte
	Save   func(r wire.JoinReply) error
	// Warn is told what is unwise but works.
	Warn func(string)
}

// Key is the node's own key for the bus, made at the first call.
func Key(dir string) (bus.Key, error) { return bus.LoadOrCreateKey(filepath.Join(dir, busKeyFile)) }

// Joined is the identity that a node has, or an error that wraps os.ErrNotExist.
func Joined(dir string) (wire.JoinReply, error) {
	path := filepath.Join(dir, joinedFile)
	b, err := atomicfile.ReadBounded(path, maxJoined)
	if err != nil {
		return wire.JoinReply{}, fmt.Errorf("reading this node's registration: %w", err)
	}
	var r wire.JoinReply
	if err := json.Unmarshal(b, &r); err != nil {
		return wire.JoinReply{}, fmt.Errorf("%s is damaged (%w): restore it from a backup, or empty %s and join again with a new token", path, err, dir)
	}
	return r, wire.CheckVersion(path, r.V)
}

// Join returns the node's identity: the one it has, or a new one for its token.
func (n Node) Join(ctx context.Context) (wire.JoinReply, error) {
	have, err := Joined(n.Dir)
	if err == nil {
		return have, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return have, err
	}
	if n.TokenFile == "" {
		return have, wire.Problemf(0, "no-token", "make one ("+howTo(n.Kind)+") and pass it with --token-file FILE",
			"this "+n.Kind+" has not joined yet", "%s holds no identity, and no token was given", n.Dir)
	}
	tok, warning, err := pki.ReadToken(n.TokenFile, n.Stdin)
	var problem *wire.Problem
	if err != nil && !errors.As(err, &problem) {
		err = wire.Problemf(0, "no-token-file", "give the path of a file with a token, or - for standard input; make one "+howTo(n.Kind),
			"the join token cannot be read", "%v", err)
	}
	if err != nil {
		return have, err
	}
	if warning != "" && n.Warn != nil {
		n.Warn(warning)
	}
	if err := tok.CheckKind(n.Kind); err != nil {
		return have, err
	}
	if n.Kind == pki.KindCluster && n.Name != "" && n.Name != tok.Cluster {
		return have, wire.Problemf(0, "token-name", "leave --name out, or make a token for it: verge token create --cluster "+n.Name,
			"the join token is for another cluster", "the token is for %s, this is %s", tok.Cluster, n.Name)
	}
	if n.Kind == pki.KindCluster {
		n.Name = tok.Cluster
	}
	key, err := Key(n.Dir)
	if err != nil {
		return have, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	reply, err := rest.JoinAt(ctx, tok.Addrs, pki.PinnedClient(tok.Pins(), tok.Name, joinClock(n.Dir, tok)), wire.JoinRequest{
		V: wire.Version, Token: tok.Encode(), Name: n.Name, PublicKey: n.Public,
		NatsKey: key.Public(), Areas: n.Areas, Version: n.Version,
	})
	if err != nil {
		return have, n.unjoined(err)
	}
	if err := wire.CheckVersion("the answer to the join request", reply.V); err != nil {
		return have, err
	}
	if err := n.Save(reply); err != nil {
		return have, err
	}
	b, err := json.Marshal(reply)
	if err != nil {
		return have, err
	}
	// Last, because its presence says that all the rest is there.
	if err := atomicfile.Write(filepath.Join(n.Dir, joinedFile), b, 0o600); err != nil {
		return have, fmt.Errorf("storing this node's registration: %w", err)
	}
	return reply, nil
}

// joinClock is the time for a node that has no certificate yet: by its own clock,
// unless the token shows that this cannot be right.
func joinClock(dir string, tok pki.Token) func() time.Time {
	clock := pki.OpenClock(dir)
	return func() time.Time {
		now := clock.Now()
		if now.Before(tok.Expires.Add(-maxTokenTTL - 24*time.Hour)) {
			// From before the token was made. A board without a battery thinks it is
			// 1970; until the token expires is as good a guess as any.
			return tok.Expires
		}
		return now
	}
}

// unjoined words why no server took the join. What a server itself says stays;
// a connection that failed is explained anew, since who joins has no context to
// put right but a token.
func (n Node) unjoined(err error) error {
	var p *wire.Problem
	if !errors.As(err, &p) || p.Status != 0 {
		return fmt.Errorf("joining: %w", err)
	}
	var tried []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "→") {
			tried = append(tried, line)
		}
	}
	detail := strings.Join(tried, "; ")
	if errors.Is(err, pki.ErrWrongRoot) {
		return wire.Problemf(0, "wrong-root", "make a token "+howTo(n.Kind)+"; if it is the right one, another server has its address now",
			"the join token is not from the server that answers", "its certificate is of another authority: %s", detail)
	}
	return wire.Problemf(0, rest.CodeUnreachable, "is it running, and can this machine reach it? The addresses are in the token: if they are wrong, start it with --advertise and make a new one "+howTo(n.Kind),
		"nobody could be joined", "%s", detail)
}

func howTo(kind string) string {
	if kind == pki.KindCluster {
		return "at the root: verge token create --cluster NAME"
	}
	return "at the cluster: verge token create --worker"
}
