package enroll

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A token whose record cannot be read is listed with the others, lets nobody in, and can be
// taken back.
func TestATokenThatCannotBeRead(t *testing.T) {
	for how, bad := range map[string]string{"damaged": `{"v":1,"expires`,
		"newer": `{"v":2,"expires":"2100-01-01T00:00:00Z"}`} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			l, store, now := newLedger(t)
			good, err := l.NewBearer(ctx, "admin/ann", time.Hour, now)
			if err != nil {
				t.Fatal(err)
			}
			api, err := l.NewBearer(ctx, "admin/ann", time.Hour, now)
			if err != nil {
				t.Fatal(err)
			}
			join, err := l.NewJoin(ctx, tokens.KindCluster, "edge", []string{"127.0.0.1:1"}, time.Hour, now)
			if err != nil {
				t.Fatal(err)
			}
			for _, prefix := range []string{keyBearer + api.ID, keyToken} {
				entries, err := store.List(ctx, prefix)
				if err != nil || len(entries) != 1 {
					t.Fatalf("%s: %d, %v", prefix, len(entries), err)
				}
				if _, err := store.Put(ctx, entries[0].Key, []byte(bad)); err != nil {
					t.Fatal(err)
				}
			}
			code := func(err error) string {
				var p *wire.Problem
				errors.As(err, &p)
				if p == nil {
					return ""
				}
				return p.Code
			}
			if _, err := l.Bearer(ctx, api.Token, now); code(err) != "record-unreadable" {
				t.Errorf("for the API: %v", err)
			}
			if _, _, err := l.Check(ctx, rpc.JoinRequest{V: wire.Version, Token: join.Token}, tokens.KindCluster,
				now); code(err) != "record-unreadable" {
				t.Errorf("to join: %v", err)
			}
			if _, err := l.Bearer(ctx, good.Token, now); err != nil {
				t.Errorf("another one: %v", err)
			}
			all, err := l.Tokens(ctx)
			problems := 0
			for _, v := range all {
				if strings.Contains(v.Problem, "verge token revoke "+v.ID) {
					problems++
				}
			}
			if err != nil || len(all) != 3 || problems != 2 {
				t.Errorf("%+v, %v", all, err)
			}
			for _, id := range []string{api.ID, join.ID} {
				if _, err := l.RevokeToken(ctx, id); err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
			if all, err := l.Tokens(ctx); err != nil || len(all) != 1 {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}
