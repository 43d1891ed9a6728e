package enroll

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Keys of a ledger in its store.
const (
	keyToken  = "token."  // + id: tokens.Record
	keyBearer = "bearer." // + hash: bearerRecord
)

// Lifetimes of tokens, where none was asked for, and how long an expired one is
// remembered to tell why it is refused.
const (
	joinTTL   = time.Hour
	bearerTTL = 30 * 24 * time.Hour
	keepSpent = 7 * 24 * time.Hour
)

// Ledger keeps the tokens of a root or a cluster. It is safe for concurrent use.
type Ledger struct {
	Store bus.Store
	// ServerName goes into join tokens: whom the node must meet. Pin and NextPin
	// are asked each time: see pki.Authority.
	ServerName   string
	Pin, NextPin func() string
	// Administers says whether who once made a token for the API may still have it
	// used; nil: whoever did.
	Administers func(ctx context.Context, who string) (bool, error)
	// Member says whether the node that asks to join is known here with the key that it
	// has: it takes no use of a token for several. Nil: none is.
	Member func(r rpc.JoinRequest) bool

	mu    sync.Mutex   // held over making and taking back tokens for the API
	ended rest.Endings // by key
}

const remedyBearer = "make a new one: verge token create --api"

type bearerRecord struct {
	V       int       `json:"v"`
	Expires time.Time `json:"expires"`
	// By made it, Created when; empty in records older than that.
	By      string    `json:"by,omitempty"`
	Created time.Time `json:"created,omitzero"`
}

// maxUses bounds how many nodes may join with one token.
const maxUses = 100_000

// NewJoin makes a join token (tokens.KindCluster, tokens.KindWorker) that names addrs.
func (l *Ledger) NewJoin(ctx context.Context, kind, cluster string, addrs []string, ttl time.Duration,
	now time.Time) (apiv1.TokenReply, error) {
	return l.newJoin(ctx, kind, cluster, "", addrs, ttl, now, func(*tokens.Record) {})
}

// NewPluginJoin is NewJoin for a scheduler plugin of a cluster.
func (l *Ledger) NewPluginJoin(ctx context.Context, cluster, plugin string, addrs []string, ttl time.Duration,
	now time.Time) (apiv1.TokenReply, error) {
	return l.newJoin(ctx, tokens.KindPlugin, cluster, plugin, addrs, ttl, now, func(*tokens.Record) {})
}

// NewGatewayJoin is NewJoin for a worker that may be a gateway with TLS.
func (l *Ledger) NewGatewayJoin(ctx context.Context, cluster string, addrs []string, ttl time.Duration,
	now time.Time) (apiv1.TokenReply, error) {
	return l.newJoin(ctx, tokens.KindWorker, cluster, "", addrs, ttl, now, func(r *tokens.Record) { r.Gateway = true })
}

// NewManyJoin is NewJoin for as many workers, 1 to maxUses.
func (l *Ledger) NewManyJoin(ctx context.Context, cluster string, addrs []string, workers int, ttl time.Duration,
	now time.Time) (apiv1.TokenReply, error) {
	if workers < 1 || workers > maxUses {
		return apiv1.TokenReply{},
			wire.Problemf(400, "bad-uses", fmt.Sprintf("ask for 1 to %d", maxUses),
				"a token cannot be good for so many workers", "%d", workers)
	}
	return l.newJoin(ctx, tokens.KindWorker, cluster, "", addrs, ttl, now, func(r *tokens.Record) { r.Uses = workers })
}

// newJoin makes a token; with says what is special about it.
func (l *Ledger) newJoin(ctx context.Context, kind, cluster, plugin string, addrs []string, ttl time.Duration,
	now time.Time, with func(*tokens.Record)) (apiv1.TokenReply, error) {
	if ttl <= 0 {
		ttl = joinTTL
	}
	create := func() (tokens.Token, tokens.Record, error) {
		if kind == tokens.KindPlugin {
			return tokens.NewPlugin(cluster, plugin, addrs, l.ServerName, l.Pin(), min(ttl, maxTokenTTL), now)
		}
		return tokens.New(kind, cluster, addrs, l.ServerName, l.Pin(), min(ttl, maxTokenTTL), now)
	}
	tok, rec, err := create()
	if err != nil {
		return apiv1.TokenReply{}, err
	}
	tok = tok.Follow(l.NextPin())
	rec.By = access.From(ctx).Name
	with(&rec)
	b, err := json.Marshal(rec)
	if err != nil {
		return apiv1.TokenReply{}, err
	}
	ops := l.spent(ctx, now)
	if err := l.roomFor(ctx, keyToken, maxJoins, len(ops)); err != nil {
		return apiv1.TokenReply{}, err
	}
	ops = append(ops, bus.Put(keyToken+rec.ID, b))
	if _, err := l.Store.Commit(ctx, ops...); err != nil {
		return apiv1.TokenReply{}, fmt.Errorf("storing the token: %w", err)
	}
	return apiv1.TokenReply{Token: tok.Encode(), Expires: rec.Expires, ID: rec.ID}, nil
}

// spent are the ops that forget some of what expired long ago.
func (l *Ledger) spent(ctx context.Context, now time.Time) []bus.Op {
	const most = 100
	var ops []bus.Op
	for _, prefix := range []string{keyToken, keyBearer} {
		entries, err := l.Store.List(ctx, prefix)
		if err != nil {
			return nil // tidying up can wait
		}
		for _, e := range entries {
			var r bearerRecord // both kinds have expires
			if json.Unmarshal(e.Value, &r) == nil && now.Sub(r.Expires) > keepSpent && len(ops) < most {
				ops = append(ops, bus.Del(e.Key))
			}
		}
	}
	return ops
}

// Check says whether a join request may be granted, and returns the op that
// marks its token as used. The op must be committed together with the node's
// registration; ErrConflict then means that somebody else was faster.
func (l *Ledger) Check(ctx context.Context, req rpc.JoinRequest, kind string, now time.Time) (tokens.Token, bus.Op,
	error) {
	if err := wire.CheckVersion("the join request", req.V); err != nil {
		return tokens.Token{}, bus.Op{},
			wire.Problemf(400, "wire-version", "use the same version of verge on both sides",
				"the join request cannot be read", "%v", err)
	}
	tok, err := tokens.Parse(req.Token)
	if err != nil {
		return tokens.Token{}, bus.Op{}, err
	}
	if err := tok.CheckKind(kind); err != nil {
		return tokens.Token{}, bus.Op{}, err
	}
	e, err := l.Store.Get(ctx, keyToken+tok.ID)
	if errors.Is(err, bus.ErrNotFound) {
		return tok, bus.Op{}, tokens.Unknown(tok)
	}
	if err != nil {
		return tok, bus.Op{}, fmt.Errorf("looking up the token: %w", err)
	}
	var rec tokens.Record
	if err := records.Load(e, &rec); err != nil {
		return tok, bus.Op{}, unreadable(unread(keyToken, tok.ID, err))
	}
	member := rec.Uses > 1 && l.Member != nil && l.Member(req)
	if err := rec.Check(tok, req.PublicKey, member, now); err != nil {
		return tok, bus.Op{}, err
	}
	b, err := json.Marshal(rec.Used(req.PublicKey, member, now))
	if err != nil {
		return tok, bus.Op{}, err
	}
	tok.Gateway = rec.Gateway
	return tok, bus.Op{Key: e.Key, Value: b, If: &e.Rev}, nil
}

// NewBearer creates a token for the HTTP interface with the rights of an administrator. by is the
// requester.
func (l *Ledger) NewBearer(ctx context.Context, by string, ttl time.Duration, now time.Time) (apiv1.TokenReply, error) {
	if ttl <= 0 {
		ttl = bearerTTL
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayMake(ctx, by); err != nil {
		return apiv1.TokenReply{}, err
	}
	text, hash := tokens.NewBearer()
	rec := bearerRecord{V: wire.Version, Expires: now.Add(min(ttl, bearerTTL)), By: by, Created: now}
	b, err := json.Marshal(rec)
	if err != nil {
		return apiv1.TokenReply{}, err
	}
	ops := l.spent(ctx, now)
	if err := l.roomFor(ctx, keyBearer, maxBearers, len(ops)); err != nil {
		return apiv1.TokenReply{}, err
	}
	if _, err := l.Store.Commit(ctx, append(ops, bus.Put(keyBearer+hash, b))...); err != nil {
		return apiv1.TokenReply{}, fmt.Errorf("storing the token: %w", err)
	}
	return apiv1.TokenReply{Token: text, Expires: rec.Expires, ID: hash[:bearerID]}, nil
}

// unreadable is what somebody hears who shows a token whose record cannot be read.
func unreadable(v apiv1.TokenView) error {
	return wire.Problemf(401, "record-unreadable", "ask an administrator for a new one: verge token create",
		"the token is refused", "%s", v.Problem)
}

// Bearer says who a token for the HTTP interface is, or why it is refused.
func (l *Ledger) Bearer(ctx context.Context, text string, now time.Time) (rest.Principal, error) {
	const remedy = remedyBearer
	hash, err := tokens.HashBearer(text)
	if err != nil {
		return rest.Principal{}, wire.Problemf(401, "bad-token", remedy, "the API token is refused", "%v", err)
	}
	e, err := l.Store.Get(ctx, keyBearer+hash)
	if errors.Is(err, bus.ErrNotFound) {
		return rest.Principal{}, notKnown()
	}
	if err != nil {
		return rest.Principal{}, fmt.Errorf("looking up the API token: %w", err)
	}
	var rec bearerRecord
	if err := records.Load(e, &rec); err != nil {
		return rest.Principal{}, unreadable(unread(keyBearer, hash, err))
	}
	if !now.Before(rec.Expires) {
		return rest.Principal{}, wire.Problemf(401, "token-expired", remedy, "the API token is refused",
			"it expired at %s", rec.Expires.UTC().Format(time.RFC3339))
	}
	// The end is taken before the last look, so that no change goes unnoticed.
	end := l.ended.Of(e.Key)
	if err := l.made(ctx, rec.By); err != nil {
		return rest.Principal{}, err
	}
	if _, err := l.Store.Get(ctx, e.Key); errors.Is(err, bus.ErrNotFound) {
		return rest.Principal{}, notKnown()
	} else if err != nil {
		return rest.Principal{}, fmt.Errorf("looking up the API token: %w", err)
	}
	// A part of the hash names the token: enough to tell it from others, useless
	// for anything else.
	return rest.Principal{Who: access.Who{Name: userOf(hash), Admin: true}, Left: rec.Expires.Sub(now), Ended: end}, nil
}

// IsName says whether s can name a node, an application or a service: a DNS label, so that it is also a part
// of a key and of a subject.
func IsName(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Reachable are the addresses of a listener for others: its port at each of the advertised hosts;
// without any, where it listens, and if that is everywhere, the addresses of this machine.
func Reachable(hosts []string, listener string) []string {
	host, port, err := net.SplitHostPort(listener)
	if err != nil {
		return []string{listener}
	}
	if len(hosts) == 0 {
		hosts = []string{host}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			hosts = ownAddresses()
		}
	}
	out := make([]string, len(hosts))
	for i, h := range hosts {
		out[i] = net.JoinHostPort(h, port)
	}
	return out
}

// ownAddresses of this machine that others may reach, or the loopback address
// where it has none.
func ownAddresses() []string {
	const most = 8
	var out []string
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return []string{"127.0.0.1"}
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(out) < most {
			out = append(out, n.IP.String())
		}
	}
	if len(out) == 0 {
		out = []string{"127.0.0.1"}
	}
	return out
}
