package enroll

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
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
	// Kind of token that is needed (tokens.KindCluster, tokens.KindWorker, tokens.KindPlugin).
	// What is named in the token needs no Name.
	Kind string
	Name string
	// TokenFile holds the token; "-" reads it from Stdin; "" there is none.
	TokenFile string
	Stdin     io.Reader
	Areas     []string
	Version   string
	// Public is the node's TLS key (PKIX DER) in a folder, made at its first call;
	// Save stores the certificate for it there.
	Public func(dir string) ([]byte, error)
	Save   func(dir string, r rpc.JoinReply) error
	// Ask asks the tier above, at its HTTP interface, to certify the key that this node
	// has joined with again; nil: nobody is asked whether it still counts.
	Ask func(ctx context.Context, have rpc.JoinReply) (rpc.JoinReply, error)
	// Clock by which the server's certificate is judged; nil is the machine's.
	Clock *pki.Clock
	// Warn receives warnings about what works but is unwise.
	Warn func(string)
}

// Key is the node's own key for the bus, made at the first call.
func Key(dir string) (credentials.Key, error) {
	return credentials.LoadOrCreateKey(filepath.Join(dir, busKeyFile))
}

var joinedKind = &statefile.Kind{What: "this node's registration", Max: maxJoined, Version: wire.Version}

// Joined is the identity that a node has, or an error that wraps os.ErrNotExist.
func Joined(dir string) (rpc.JoinReply, error) {
	path := filepath.Join(dir, joinedFile)
	var r rpc.JoinReply
	_, err := joinedKind.Read(path, &r)
	switch {
	case err == nil:
		return r, nil
	case statefile.Damaged(err):
		return rpc.JoinReply{}, fmt.Errorf("%s is damaged (%w): restore it from a backup, or empty %s and join again "+
			"with a new token", path, err, dir)
	}
	return rpc.JoinReply{}, fmt.Errorf("reading this node's registration: %w", err)
}

// SaveJoined stores where the tier above is and what it said.
func SaveJoined(dir string, r rpc.JoinReply) error {
	r.V = wire.Version
	if err := joinedKind.Write(filepath.Join(dir, joinedFile), r); err != nil {
		return fmt.Errorf("storing this node's registration: %w", err)
	}
	return nil
}

// maxAddrs bounds the addresses of one server that are remembered.
const maxAddrs = 16

// Moved is what a renewal said, with the certificate of before if it has none, and
// with the addresses that were known before behind those that it names: whichever
// of them is right, it is among them.
func Moved(before, now rpc.JoinReply) rpc.JoinReply {
	if now.Chain == "" {
		now.Chain, now.CA, now.Away = before.Chain, before.CA, before.Away
	}
	now.Link, now.API = union(now.Link, before.Link), union(now.API, before.API)
	return now
}

func union(first, then []string) []string {
	out := slices.Clone(first)
	for _, a := range then {
		if !slices.Contains(out, a) && len(out) < maxAddrs {
			out = append(out, a)
		}
	}
	return out
}

// APIAddrs are the addresses of the HTTP interface of the tier above. Where they
// are not known they are guessed from those of its link; port is the usual one.
func APIAddrs(r rpc.JoinReply, link []string, port string) []string {
	if len(r.API) > 0 {
		if _, p, err := net.SplitHostPort(r.API[0]); err == nil {
			port = p
		}
	}
	var guessed []string
	for _, a := range link {
		if host, _, err := net.SplitHostPort(a); err == nil {
			guessed = append(guessed, net.JoinHostPort(host, port))
		}
	}
	return union(r.API, guessed)
}

// Join returns the node's identity: the present one, or a new one for its token. A node that was
// rejected (MarkRefused, or as it learns now) joins again with a token; until that succeeds it
// keeps its identity.
func (n Node) Join(ctx context.Context) (rpc.JoinReply, error) {
	if err := n.finishSwap(); err != nil {
		return rpc.JoinReply{}, err
	}
	have, err := Joined(n.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return n.join(ctx)
	}
	if err != nil || n.TokenFile == "" {
		return have, err
	}
	mark, marked, err := n.refused()
	if err != nil {
		return have, err
	}
	if !marked {
		if have, mark, marked = n.doubt(ctx, have); !marked {
			return have, nil
		}
	}
	reply, err := n.rejoin(ctx, mark)
	if err != nil {
		n.warn("this node was refused (" + mark.Problem.Title + ") and could not join again: " + err.Error())
		return have, nil //nolint:nilerr // said above; what it is good for is found out again
	}
	return reply, nil
}

func (n Node) warn(text string) {
	if n.Warn != nil {
		n.Warn(text)
	}
}

// join makes a new identity for the token.
func (n Node) join(ctx context.Context) (have rpc.JoinReply, err error) {
	if n.TokenFile == "" {
		return have, wire.Problemf(0, "no-token", "make one ("+howTo(n.Kind)+") and pass it with --token-file FILE",
			"this "+n.Kind+" has not joined yet", "%s holds no identity, and no token was given", n.Dir)
	}
	tok, warning, err := tokens.Read(n.TokenFile, n.Stdin)
	var problem *wire.Problem
	if err != nil && !errors.As(err, &problem) {
		err = wire.Problemf(0, "no-token-file",
			"give the path of a file with a token, or - for standard input; make one "+howTo(n.Kind),
			"the join token cannot be read", "%v", err)
	}
	if err != nil {
		return have, err
	}
	if warning != "" {
		n.warn(warning)
	}
	if err := tok.CheckKind(n.Kind); err != nil {
		return have, err
	}
	if n.Kind == tokens.KindCluster && n.Name != "" && n.Name != tok.Cluster {
		return have, wire.Problemf(0, "token-name",
			"leave --name out, or make a token for it: verge token create --cluster "+n.Name,
			"the join token is for another cluster", "the token is for %s, this is %s", tok.Cluster, n.Name)
	}
	if n.Kind == tokens.KindCluster {
		n.Name = tok.Cluster
	}
	if n.Kind == tokens.KindPlugin {
		n.Name = tok.Plugin
	}
	key, err := Key(n.Dir)
	if err != nil {
		return have, err
	}
	public, err := n.Public(n.Dir)
	if err != nil {
		return have, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	reply, err := nodeclient.JoinAt(ctx, tok.Addrs, pki.PinnedClient(tok.Pins(), tok.Name, joinClock(n.Clock, tok)),
		rpc.JoinRequest{
			V: wire.Version, Token: tok.Encode(), Name: n.Name, PublicKey: public,
			NatsKey: key.Public(), Areas: n.Areas, Version: n.Version,
		})
	if err != nil {
		return have, n.unjoined(err)
	}
	if err := wire.CheckVersion("the answer to the join request", reply.V); err != nil {
		return have, err
	}
	if err := n.Save(n.Dir, reply); err != nil {
		return have, err
	}
	n.saw(tok)
	// Last, because its presence says that all the rest is there.
	return reply, SaveJoined(n.Dir, reply)
}

// joinClock is the time for a node that has no certificate yet: by its own clock,
// unless the token shows that this cannot be right.
func joinClock(clock *pki.Clock, tok tokens.Token) func() time.Time {
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
		return wire.Problemf(0, "wrong-root", "make a token "+howTo(n.Kind)+
			"; if it is the right one, another server has its address now",
			"the join token is not from the server that answers", "its certificate is of another authority: %s", detail)
	}
	return wire.Problemf(0, client.CodeUnreachable,
		"is it running, and can this machine reach it? The addresses are in the token: if they are wrong, start it "+
			"with --advertise and make a new one "+howTo(n.Kind),
		"nobody could be joined", "%s", detail)
}

func howTo(kind string) string {
	switch kind {
	case tokens.KindCluster:
		return "at the root: verge token create --cluster NAME"
	case tokens.KindPlugin:
		return "at the cluster: verge token create --plugin NAME"
	}
	return "at the cluster: verge token create --worker"
}
