package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func newLedger(t *testing.T) (*Ledger, *bustest.MemStore, time.Time) {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ca, err := pki.OpenAuthority(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	store := bustest.NewMemStore()
	return &Ledger{Store: store, ServerName: pki.RootName, Pin: ca.Pin, NextPin: ca.NextPin}, store, now
}

func request(token, key string) rpc.JoinRequest {
	return rpc.JoinRequest{V: wire.Version, Token: token, Name: "n", PublicKey: []byte(key)}
}

func TestATokenIsGoodForOneNode(t *testing.T) {
	ctx := context.Background()
	l, store, now := newLedger(t)
	tok, err := l.NewJoin(ctx, tokens.KindCluster, "edge", []string{"127.0.0.1:1"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	_, first, err := l.Check(ctx, request(tok.Token, "key-a"), tokens.KindCluster, now)
	if err != nil {
		t.Fatal(err)
	}
	// Another node passes the check before the first has committed: only one of
	// the two commits may succeed.
	_, second, err := l.Check(ctx, request(tok.Token, "key-b"), tokens.KindCluster, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(ctx, first, bus.Put("node", []byte("a"))); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(ctx, second, bus.Put("node", []byte("b"))); !errors.Is(err, bus.ErrConflict) {
		t.Fatalf("the second node's commit gave %v, want a conflict", err)
	}
	if e, err := store.Get(ctx, "node"); err != nil || string(e.Value) != "a" {
		t.Errorf("the node is %q, %v", e.Value, err)
	}
	if _, _, err := l.Check(ctx, request(tok.Token, "key-b"), tokens.KindCluster, now); !errors.Is(err, tokens.ErrUsed) {
		t.Errorf("reuse by another gave %v", err)
	}
	// The reply may have been lost: the same node may ask again.
	if _, _, err := l.Check(ctx, request(tok.Token, "key-a"), tokens.KindCluster, now); err != nil {
		t.Errorf("the same node was refused: %v", err)
	}
}

func TestTokensThatAreRefused(t *testing.T) {
	ctx := context.Background()
	l, _, now := newLedger(t)
	tok, err := l.NewJoin(ctx, tokens.KindCluster, "edge", []string{"127.0.0.1:1"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := tokens.Parse(tok.Token)
	if err != nil {
		t.Fatal(err)
	}
	forged := parsed
	forged.Secret = "AAAAAAAAAAAAAAAAAAAAAA"
	strange := parsed
	strange.ID = "0123456789abcdef"
	for name, tc := range map[string]struct {
		req  rpc.JoinRequest
		kind string
		at   time.Time
		want error
	}{
		"expired":    {request(tok.Token, "k"), tokens.KindCluster, now.Add(2 * time.Hour), tokens.ErrExpired},
		"wrong kind": {request(tok.Token, "k"), tokens.KindWorker, now, tokens.ErrKind},
		"forged":     {request(forged.Encode(), "k"), tokens.KindCluster, now, tokens.ErrForged},
		"unknown":    {request(strange.Encode(), "k"), tokens.KindCluster, now, tokens.ErrUnknown},
		"rubbish":    {request("verge-join-1.xxxx", "k"), tokens.KindCluster, now, tokens.ErrMalformed},
	} {
		_, _, err := l.Check(ctx, tc.req, tc.kind, tc.at)
		var p *wire.Problem
		if !errors.Is(err, tc.want) || !errors.As(err, &p) || p.Remedy == "" {
			t.Errorf("%s: %v, want %v with a remedy", name, err, tc.want)
		}
	}
	old := request(tok.Token, "k")
	old.V = wire.Version + 5
	if _, _, err := l.Check(ctx, old, tokens.KindCluster, now); err == nil {
		t.Error("a request of another wire version was let in")
	}
}

func TestBearerTokens(t *testing.T) {
	ctx := context.Background()
	l, store, now := newLedger(t)
	tok, err := l.NewBearer(ctx, "admin/ann", time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Bearer(ctx, tok.Token, now.Add(time.Minute))
	if err != nil || !c.Admin || !strings.HasPrefix(c.Name, "token/") || c.Left != 59*time.Minute {
		t.Errorf("a fresh token: %+v, %v", c, err)
	}
	refused := func(text string, at time.Time) error {
		c, err := l.Bearer(ctx, text, at)
		if c.Admin || c.Name != "" {
			t.Errorf("a refused token is %+v", c)
		}
		return err
	}
	for name, bad := range map[string]error{
		"expired": refused(tok.Token, now.Add(2*time.Hour)),
		"other":   refused(tok.Token+"0", now),
		"rubbish": refused("x", now),
	} {
		var p *wire.Problem
		if !errors.As(bad, &p) || p.Status != 401 || p.Remedy == "" {
			t.Errorf("%s: %v, want a 401 with a remedy", name, bad)
		}
	}
	entries, err := store.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if string(e.Value) == tok.Token || e.Key == "bearer."+tok.Token {
			t.Error("the token itself is stored")
		}
	}
	// Spent ones are forgotten in time, by the making of others.
	if _, err := l.NewBearer(ctx, "admin/ann", time.Hour, now.Add(30*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, err := store.List(ctx, "bearer."); err != nil || len(left) != 1 {
		t.Errorf("%d tokens are kept, %v, want the new one", len(left), err)
	}
}

// A token for the API is taken back by its id, at once, with those that were made
// with it; nothing else is, and it is found by no less than its name.
func TestTokensAreTakenBack(t *testing.T) {
	ctx := context.Background()
	l, _, now := newLedger(t)
	admin := true
	l.Administers = func(_ context.Context, who string) (bool, error) { return who != "user/amy" || admin, nil }
	bearer := func(by string) (apiv1.TokenReply, rest.Principal) {
		t.Helper()
		tok, err := l.NewBearer(ctx, by, 0, now)
		if err != nil {
			t.Fatal(err)
		}
		p, err := l.Bearer(ctx, tok.Token, now)
		if err != nil || p.Ended == nil {
			t.Fatalf("%+v, %v", p, err)
		}
		return tok, p
	}
	first, p := bearer("admin/ann")
	second, q := bearer(p.Name)
	_, r := bearer(q.Name)
	other, o := bearer("user/amy")
	join, err := l.NewJoin(access.With(ctx, access.Who{Name: "user/bob"}), tokens.KindCluster, "edge",
		[]string{"127.0.0.1:1"}, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	list, err := l.Tokens(ctx)
	if err != nil || len(list) != 5 || list[4].ID != join.ID || list[4].By != "user/bob" || list[4].Cluster != "edge" ||
		list[0].Expires != now.Add(bearerTTL) {
		t.Fatalf("%+v, %v", list, err)
	}
	for name, id := range map[string]string{"nothing": "", "too short": first.ID[:7], "not one": "00000000",
		"the token itself": first.Token} {
		_, err := l.RevokeToken(ctx, id)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "no-such-token" || p.Remedy == "" ||
			strings.Contains(err.Error(), first.Token) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, err := l.RevokeToken(ctx, p.Name)
	if err != nil || len(gone) != 3 || gone[0].ID != first.ID || gone[1].ID != second.ID {
		t.Fatalf("%+v, %v", gone, err)
	}
	for i, c := range []<-chan struct{}{p.Ended, q.Ended, r.Ended} {
		select {
		case <-c:
		default:
			t.Errorf("what token %d has open goes on", i)
		}
	}
	for _, text := range []string{first.Token, second.Token} {
		var p *wire.Problem
		if _, err := l.Bearer(ctx, text, now); !errors.As(err, &p) || p.Code != "bad-token" {
			t.Errorf("it is still good: %v", err)
		}
	}
	if _, err := l.NewBearer(ctx, p.Name, 0, now); err == nil {
		t.Error("a request that was under way with it makes another")
	}
	select {
	case <-o.Ended:
		t.Error("another's is cut off")
	default:
	}
	// What an administrator made ends with that right.
	admin = false
	l.CutOff(ctx, "user/amy")
	<-o.Ended
	if _, err := l.Bearer(ctx, other.Token, now); err == nil || !strings.Contains(err.Error(), "user/amy") {
		t.Errorf("it is good without its maker: %v", err)
	}
	// A token to join: as long as nobody did.
	if _, err := l.RevokeToken(ctx, join.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Check(ctx, request(join.Token, "k"), tokens.KindCluster, now); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("it lets join: %v", err)
	}
	if join, err = l.NewJoin(ctx, tokens.KindCluster, "edge", []string{"127.0.0.1:1"}, time.Hour, now); err != nil {
		t.Fatal(err)
	}
	_, used, err := l.Check(ctx, request(join.Token, "k"), tokens.KindCluster, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Store.Commit(ctx, used); err != nil {
		t.Fatal(err)
	}
	var problem *wire.Problem
	if _, err := l.RevokeToken(ctx, join.ID); !errors.As(err, &problem) || problem.Code != "token-used" {
		t.Errorf("one that was used: %v", err)
	}
}

func TestTokensAreBounded(t *testing.T) {
	ctx := context.Background()
	l, store, now := newLedger(t)
	if tok, err := l.NewBearer(ctx, "admin/ann", 1000*time.Hour, now); err != nil ||
		tok.Expires.After(now.Add(bearerTTL)) {
		t.Errorf("%v, %v", tok.Expires, err)
	}
	var ops []bus.Op
	for i := range maxBearers - 1 {
		ops = append(ops, bus.Put(fmt.Sprintf("%s%064x", keyBearer, i),
			[]byte(`{"v":1,"expires":"2026-02-02T00:00:00Z"}`)))
	}
	if _, err := store.Commit(ctx, ops...); err != nil {
		t.Fatal(err)
	}
	_, err := l.NewBearer(ctx, "admin/ann", 0, now)
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != "too-many" || !strings.Contains(p.Remedy, "verge token ls") {
		t.Errorf("%v", err)
	}
	if _, err := l.RevokeToken(ctx, "0000000000000000"); !errors.As(err, &p) || p.Code != "ambiguous" {
		t.Errorf("%v", err)
	}
	if _, err := l.NewJoin(ctx, tokens.KindWorker, "edge", []string{"127.0.0.1:1"}, 0, now); err != nil {
		t.Errorf("a token to join is of another kind: %v", err)
	}
}

func TestReachable(t *testing.T) {
	for _, tc := range []struct {
		hosts    []string
		listener string
		want     string
	}{
		{[]string{"a.example", "2001:db8::1"}, "0.0.0.0:80", "a.example:80"},
		{nil, "127.0.0.1:81", "127.0.0.1:81"},
		{nil, "[::1]:82", "[::1]:82"},
	} {
		if got := Reachable(tc.hosts, tc.listener); got[0] != tc.want {
			t.Errorf("Reachable(%v, %s) = %v, want %s first", tc.hosts, tc.listener, got, tc.want)
		}
	}
	if got := Reachable(nil, "0.0.0.0:90"); len(got) == 0 || got[0] == "0.0.0.0:90" {
		t.Errorf("everywhere is reached at %v", got)
	}
}

// Whether a worker may be a gateway is taken from what is stored of its token.
func TestGatewayToken(t *testing.T) {
	ctx := t.Context()
	l, _, now := newLedger(t)
	for _, gateway := range []bool{true, false} {
		reply, err := l.newJoin(ctx, tokens.KindWorker, "edge", "", []string{"127.0.0.1:1"}, time.Hour, now,
			func(r *tokens.Record) { r.Gateway = gateway })
		if err != nil {
			t.Fatal(err)
		}
		tok, _, err := l.Check(ctx, request(reply.Token, "key"), tokens.KindWorker, now)
		if err != nil || tok.Gateway != gateway {
			t.Errorf("%+v, %v", tok, err)
		}
		views, err := l.Tokens(ctx)
		if i := slices.IndexFunc(views, func(v apiv1.TokenView) bool { return v.ID == reply.ID }); err != nil ||
			i < 0 || views[i].Gateway != gateway {
			t.Errorf("%+v, %v", views, err)
		}
	}
}

// A token for several is good for as many different nodes as it says. Who joined with
// it may ask again, since the reply may have been lost, and takes nothing from others.
func TestATokenForSeveral(t *testing.T) {
	ctx := t.Context()
	l, store, now := newLedger(t)
	members := map[string]bool{}
	l.Member = func(r rpc.JoinRequest) bool { return members[string(r.PublicKey)] }
	for _, n := range []int{-1, 0, maxUses + 1} {
		if _, err := l.NewManyJoin(ctx, "edge", []string{"127.0.0.1:1"}, n, time.Hour, now); err == nil {
			t.Errorf("a token for %d was made", n)
		}
	}
	reply, err := l.NewManyJoin(ctx, "edge", []string{"127.0.0.1:1"}, 3, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	join := func(key string) error {
		_, used, err := l.Check(ctx, request(reply.Token, key), tokens.KindWorker, now)
		if err == nil {
			_, err = store.Commit(ctx, used)
		}
		if err == nil {
			members[key] = true
		}
		return err
	}
	for i, key := range []string{"a", "b", "a", "a", "c", "b"} {
		if err := join(key); err != nil {
			t.Fatalf("join %d, of %s: %v", i, key, err)
		}
	}
	if err := join("d"); !errors.Is(err, tokens.ErrUsed) {
		t.Errorf("a fourth node: %v", err)
	}
	views, err := l.Tokens(ctx)
	if err != nil || len(views) != 1 || views[0].Uses != 3 || views[0].Joined != 3 || !views[0].Used.Equal(now) {
		t.Errorf("%+v, %v", views, err)
	}
}

// What is left of a token for several can be taken back.
func TestATokenForSeveralIsTakenBack(t *testing.T) {
	ctx := t.Context()
	l, store, now := newLedger(t)
	reply, err := l.NewManyJoin(ctx, "edge", []string{"127.0.0.1:1"}, 3, time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	_, used, err := l.Check(ctx, request(reply.Token, "a"), tokens.KindWorker, now)
	if err == nil {
		_, err = store.Commit(ctx, used)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.RevokeToken(ctx, reply.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Check(ctx, request(reply.Token, "b"), tokens.KindWorker, now); !errors.Is(err, tokens.ErrUnknown) {
		t.Errorf("joining with what is left of it: %v", err)
	}
}
