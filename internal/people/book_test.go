package people

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newBook is a book on an in-memory store, and its clock.
func newBook(site string) (b *Book, store *bustest.MemStore, now *time.Time) {
	at := start
	store = bustest.NewMemStore()
	return &Book{Store: store, Site: site, Now: func() time.Time { return at }}, store, &at
}

func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprint(err)
}

func dev(namespaces ...string) wire.Roles {
	r := wire.Roles{Namespaces: map[string]string{}}
	for _, n := range namespaces {
		r.Namespaces[n] = "developer"
	}
	return r
}

func mustCreate(t *testing.T, b *Book, name string, r wire.Roles) apiv1.UserReply {
	t.Helper()
	u, err := b.CreateUser(t.Context(), apiv1.UserRequest{Name: name, Roles: r})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func mustKnow(t *testing.T, b *Book, token string) rest.Principal {
	t.Helper()
	p, known, err := b.Authenticate(t.Context(), token)
	if err != nil || !known {
		t.Fatalf("known=%v, %v", known, err)
	}
	return p
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestUsers(t *testing.T) {
	b, store, _ := newBook("")
	ctx := access.With(t.Context(), access.Who{Name: "admin/ann", Admin: true})
	u, err := b.CreateUser(ctx, apiv1.UserRequest{Name: "bob", TTLSeconds: 3600, Roles: wire.Roles{
		Namespaces: map[string]string{"shop": "developer", "bank": "viewer"},
		Clusters:   map[string]string{"edge": "operator"},
	}})
	if err != nil || u.User.By != "admin/ann" || !u.User.TokenExpires.Equal(start.Add(time.Hour)) {
		t.Fatalf("%+v, %v", u, err)
	}
	p := mustKnow(t, b, u.Token)
	if p.Name != "user/bob" || p.Admin || p.Namespaces["shop"] != access.Developer ||
		p.Namespaces["bank"] != access.Viewer ||
		p.Clusters["edge"] != access.Operator || p.Left != time.Hour || closed(p.Ended) {
		t.Errorf("%+v", p)
	}
	// A book on the same store, as after a restart, knows the same.
	if p := mustKnow(t, &Book{Store: store, Now: b.Now}, u.Token); p.Name != "user/bob" {
		t.Errorf("%+v", p)
	}
	entries, err := store.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Key+string(e.Value), u.Token) ||
			strings.Contains(e.Key+string(e.Value), strings.TrimPrefix(u.Token, "verge-api-1.")) {
			t.Errorf("the token itself is stored under %s", e.Key)
		}
	}
	if _, err := b.CreateUser(ctx, apiv1.UserRequest{Name: "bob", Roles: dev("x")}); code(err) != "name-taken" {
		t.Errorf("%v", err)
	}
	mustCreate(t, b, "amy", wire.Roles{Admin: true})
	if list, err := b.Users(ctx); err != nil || len(list) != 2 || list[0].Name != "amy" || !list[0].Admin {
		t.Errorf("%+v, %v", list, err)
	}
	if v, err := b.User(ctx, "bob"); err != nil || v.Clusters["edge"] != "operator" {
		t.Errorf("%+v, %v", v, err)
	}
	if err := b.RemoveUser(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	if !closed(p.Ended) {
		t.Error("what a removed user has open is not ended")
	}
	if _, known, _ := b.Authenticate(ctx, u.Token); known {
		t.Error("a removed user's token is known")
	}
	for _, err := range []error{b.RemoveUser(ctx, "bob"), errOf(b.User(ctx, "bob")),
		errOf(b.Grant(ctx, "bob", dev("x"))), errOf(b.RotateToken(ctx, "bob", 0)), errOf(b.User(ctx, "../x"))} {
		if code(err) != "no-such-user" {
			t.Errorf("%v", err)
		}
	}
	if left, err := store.List(ctx, ""); err != nil || len(left) != 2 {
		t.Errorf("%d entries are left of one user, %v", len(left), err)
	}
	// Who is made anew under an old name is somebody else.
	mustCreate(t, b, "bob", dev("shop"))
	if _, known, _ := b.Authenticate(ctx, u.Token); known {
		t.Error("a token of an earlier user of that name is known")
	}
}

func errOf[T any](_ T, err error) error { return err }

func TestTokensEnd(t *testing.T) {
	b, _, now := newBook("")
	ctx := t.Context()
	u := mustCreate(t, b, "bob", dev("shop"))
	p := mustKnow(t, b, u.Token)
	if p.Left != TokenTTL {
		t.Errorf("it lasts %s", p.Left)
	}
	again, err := b.RotateToken(ctx, "bob", time.Minute)
	if err != nil || again.Token == u.Token || !closed(p.Ended) {
		t.Errorf("%+v, %v", again, err)
	}
	if _, known, _ := b.Authenticate(ctx, u.Token); known {
		t.Error("the old token is known")
	}
	mustKnow(t, b, again.Token)
	*now = start.Add(time.Minute)
	p, known, err := b.Authenticate(ctx, again.Token)
	if code(err) != "token-expired" || !known || p.Name != "" || p.Namespaces != nil {
		t.Errorf("expired: %+v, %v, %v", p, known, err)
	}
	for _, text := range []string{"", "x", "verge-api-1.00", again.Token + "0", strings.Repeat("x", 1<<16)} {
		if p, known, err := b.Authenticate(ctx, text); known || err != nil || p.Name != "" {
			t.Errorf("%.20q: %+v, %v, %v", text, p, known, err)
		}
	}
}

func TestRolesComeAndGo(t *testing.T) {
	b, _, _ := newBook("")
	ctx := t.Context()
	u := mustCreate(t, b, "bob", dev("shop"))
	p := mustKnow(t, b, u.Token)
	if _, err := b.Grant(ctx, "bob",
		wire.Roles{Namespaces: map[string]string{"bank": "viewer"},
			Clusters: map[string]string{"edge": "operator"}}); err != nil {
		t.Fatal(err)
	}
	if closed(p.Ended) {
		t.Error("more roles end what is open")
	}
	if p := mustKnow(t, b, u.Token); p.Namespaces["bank"] != access.Viewer || p.Namespaces["shop"] != access.Developer {
		t.Errorf("%+v", p)
	}
	// A role that takes another's place may allow less.
	if _, err := b.Grant(ctx, "bob", wire.Roles{Namespaces: map[string]string{"shop": "viewer"}}); err != nil ||
		!closed(p.Ended) {
		t.Errorf("%v, ended=%v", err, closed(p.Ended))
	}
	p = mustKnow(t, b, u.Token)
	for name, r := range map[string]wire.Roles{
		"not developer": dev("shop"), "not there": dev("x"), "not admin": {Admin: true},
		"half":        {Namespaces: map[string]string{"shop": "viewer", "x": "viewer"}},
		"no operator": {Clusters: map[string]string{"fog": "operator"}},
	} {
		if _, err := b.Revoke(ctx, "bob", r); code(err) != "no-such-role" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p := mustKnow(t, b, u.Token); len(p.Namespaces) != 2 || len(p.Clusters) != 1 || closed(p.Ended) {
		t.Errorf("a refused revocation changed something: %+v", p)
	}
	v, err := b.Revoke(ctx, "bob",
		wire.Roles{Namespaces: map[string]string{"shop": "viewer"}, Clusters: map[string]string{"edge": "operator"}})
	if err != nil || len(v.Namespaces) != 1 || len(v.Clusters) != 0 || !closed(p.Ended) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestRolesThatCannotBeGiven(t *testing.T) {
	b, store, _ := newBook("edge")
	many := map[string]string{}
	for i := range maxRoles + 1 {
		many[fmt.Sprintf("n%d", i)] = "viewer"
	}
	for name, r := range map[string]wire.Roles{
		"unknown role":         {Namespaces: map[string]string{"shop": "owner"}},
		"a cluster's role":     {Namespaces: map[string]string{"shop": "operator"}},
		"a namespace's role":   {Clusters: map[string]string{"edge": "developer"}},
		"not a name":           {Namespaces: map[string]string{"a.b": "viewer"}},
		"no name":              {Clusters: map[string]string{"": "operator"}},
		"another site":         {Clusters: map[string]string{"fog": "operator"}},
		"more than anyone has": {Namespaces: many},
	} {
		if _, err := b.CreateUser(t.Context(), apiv1.UserRequest{Name: "bob", Roles: r}); code(err) != "bad-role" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "Bob", "a.b", "a/b", strings.Repeat("a", 64), "bob\n"} {
		if _, err := b.CreateUser(t.Context(),
			apiv1.UserRequest{Name: name, Roles: dev("shop")}); code(err) != "bad-name" {
			t.Errorf("%q: %v", name, err)
		}
	}
	if store.Rev() != 0 {
		t.Error("something was stored")
	}
	mustCreate(t, b, "bob", wire.Roles{Clusters: map[string]string{"edge": "operator"}})
}

func TestLeaveNamespace(t *testing.T) {
	b, store, _ := newBook("")
	ctx := t.Context()
	in, out := mustCreate(t, b, "in", dev("shop", "bank")), mustCreate(t, b, "out", dev("bank"))
	pin, pout := mustKnow(t, b, in.Token), mustKnow(t, b, out.Token)
	commit := func(ops ...bus.Op) error {
		_, err := store.Commit(ctx, append(ops, bus.Put("together", []byte("x")))...)
		return err
	}
	if err := b.LeaveNamespace(ctx, "shop", commit); err != nil {
		t.Fatal(err)
	}
	if !closed(pin.Ended) || closed(pout.Ended) {
		t.Error("the wrong requests were ended")
	}
	if p := mustKnow(t, b, in.Token); len(p.Namespaces) != 1 || p.Namespaces["bank"] == "" {
		t.Errorf("%+v", p)
	}
	if _, err := store.Get(ctx, "together"); err != nil {
		t.Error(err)
	}
	store.FailWrites(errors.New("full"))
	if err := b.LeaveNamespace(ctx, "bank", commit); err == nil {
		t.Error("a full disk gave no error")
	}
	if p := mustKnow(t, b, out.Token); p.Namespaces["bank"] == "" {
		t.Error("a failed change changed something")
	}
}

func TestWhatCannotBeStored(t *testing.T) {
	b, store, _ := newBook("")
	u := mustCreate(t, b, "bob", dev("shop"))
	p := mustKnow(t, b, u.Token)
	store.FailWrites(errors.New("full"))
	for name, err := range map[string]error{
		"create": errOf(b.CreateUser(t.Context(), apiv1.UserRequest{Name: "amy"})),
		"rotate": errOf(b.RotateToken(t.Context(), "bob", 0)),
		"remove": b.RemoveUser(t.Context(), "bob"), "grant": errOf(b.Grant(t.Context(), "bob", dev("x"))),
		"revoke": errOf(b.Revoke(t.Context(), "bob", dev("shop"))),
	} {
		if code(err) != "not-stored" {
			t.Errorf("%s: %v", name, err)
		}
	}
	store.FailWrites(nil)
	if p2 := mustKnow(t, b, u.Token); closed(p.Ended) || p2.Namespaces["x"] != "" {
		t.Errorf("a failed change changed something: %+v", p2)
	}
	store.LoseNextOutcome(true)
	if err := b.RemoveUser(context.Background(), "bob"); code(err) != "outcome-unknown" {
		t.Errorf("%v", err)
	}
	if _, known, _ := b.Authenticate(t.Context(), u.Token); known {
		t.Error("the user was removed all the same, and is known")
	}
}
