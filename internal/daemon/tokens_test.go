package daemon

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Tokens for programs at a real root: what is taken back is good for nothing at
// once, and so is what somebody made who is no administrator any more. All of it is
// in the audit log.
func TestTokensForProgramsAreTakenBack(t *testing.T) {
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}
	s.startRoot()
	defer s.root.Close()
	entry, err := client.ReadContext(s.root.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	as := func(token string) *client.Client {
		t.Helper()
		e := entry
		if token != "" {
			e.Cert, e.Key, e.Token = "", "", token
		}
		c, err := client.New(e)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	ctx, admin := t.Context(), as("")
	program := func(c *client.Client) apiv1.TokenReply {
		t.Helper()
		tok, err := c.Tokens.Create(ctx, apiv1.TokenRequest{Kind: "api"})
		if err != nil {
			t.Fatal(err)
		}
		if me, err := as(tok.Token).Users.WhoAmI(ctx); err != nil || me.Name != "token/"+tok.ID[:8] || !me.Admin {
			t.Fatalf("%+v, %v", me, err)
		}
		return tok
	}
	refused := func(what, token string) {
		t.Helper()
		_, err := as(token).Users.WhoAmI(ctx)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "bad-token" || p.Remedy == "" {
			t.Errorf("%s: %v", what, err)
		}
	}
	first := program(admin)
	child := program(as(first.Token))
	list, err := admin.Tokens.List(ctx)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if gone, err := admin.Tokens.Revoke(ctx, first.ID); err != nil || len(gone) != 2 {
		t.Fatalf("%+v, %v", gone, err)
	}
	refused("a token that was taken back", first.Token)
	refused("one that was made with it", child.Token)

	for what, less := range map[string]func(name string) error{
		"gone": func(name string) error { return admin.Users.Remove(ctx, name) },
		"no-admin": func(name string) error {
			_,
				err := admin.Users.Revoke(ctx, name, wire.Roles{Admin: true})
			return err
		},
	} {
		u, err := admin.Users.Create(ctx, apiv1.UserRequest{Name: what, Roles: wire.Roles{Admin: true}})
		if err != nil {
			t.Fatal(err)
		}
		tok := program(as(u.Token))
		if err := less(what); err != nil {
			t.Fatal(err)
		}
		refused("a token of somebody who is "+what, tok.Token)
	}
	log, err := admin.System.Audit(ctx, apiv1.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	for _, e := range log.Entries {
		said[e.What+" "+e.Result]++
		if e.V != wire.Version || strings.Contains(e.On+e.Detail, "verge-api") {
			t.Errorf("%+v", e)
		}
	}
	if said["create-token ok"] != 4 || said["revoke-token ok"] != 1 {
		t.Errorf("the audit log has %v", said)
	}
}
