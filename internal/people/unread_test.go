package people

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/pki/tokens"
)

// A user whose record cannot be read is shown with the others, lets nobody in, and the log
// says why, once; what depends on what it may do is refused until somebody has removed it.
func TestAUserThatCannotBeRead(t *testing.T) {
	for how, bad := range map[string]string{"damaged": `{"v":1,"na`, "newer": `{"v":2,"name":"bob","admin":true}`} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			b, store, _ := newBook("")
			var log bytes.Buffer
			b.Log = slog.New(slog.NewTextHandler(&log, nil))
			ann := mustCreate(t, b, "ann", dev("shop"))
			bob := mustCreate(t, b, "bob", dev("shop"))
			mustCreate(t, b, "cid", dev("bank"))
			if _, err := store.Put(ctx, keyUser+"bob", []byte(bad)); err != nil {
				t.Fatal(err)
			}
			mustKnow(t, b, ann.Token)
			for range 3 {
				if p, known, err := b.Authenticate(ctx, bob.Token); code(err) != "record-unreadable" || !known ||
					p.Admin || p.Name != "" {
					t.Fatalf("%+v, %v, %v", p, known, err)
				}
			}
			if n := strings.Count(log.String(), "user.bob"); n != 1 ||
				!strings.Contains(log.String(), "verge user rm bob") {
				t.Errorf("the log names it %d times:\n%s", n, log.String())
			}
			all, err := b.Users(ctx)
			names := make([]string, len(all))
			for i, u := range all {
				names[i] = u.Name
				if bad := u.Problem != ""; bad != (u.Name == "bob") {
					t.Errorf("%s: %q", u.Name, u.Problem)
				}
			}
			if err != nil || !slices.Equal(names, []string{"ann", "bob", "cid"}) ||
				!strings.Contains(all[1].Problem, "user.bob") ||
				!strings.Contains(all[1].Problem, "verge user rm bob") {
				t.Errorf("%+v, %v", all, err)
			}
			rev := store.Rev()
			if _, err := b.CreateUser(ctx,
				apiv1.UserRequest{Name: "bob", Roles: dev("x")}); code(err) != "record-unreadable" {
				t.Errorf("it is made once more: %v", err)
			}
			for what, err := range map[string]error{
				"token":     second(b.RotateToken(ctx, "bob", 0)),
				"grant":     second(b.Grant(ctx, "bob", dev("x"))),
				"revoke":    second(b.Revoke(ctx, "bob", dev("shop"))),
				"describe":  second(b.User(ctx, "bob")),
				"namespace": b.LeaveNamespace(ctx, "shop", nil),
			} {
				if code(err) != "record-unreadable" {
					t.Errorf("%s: %v", what, err)
				}
			}
			if is, err := b.Administers(ctx, "user/bob"); is || err == nil {
				t.Errorf("it administers: %v, %v", is, err)
			}
			if store.Rev() != rev {
				t.Error("something was stored")
			}
			if _, err := b.CreateUser(ctx, apiv1.UserRequest{Name: "dan", Roles: dev("x")}); err != nil {
				t.Errorf("others cannot be made: %v", err)
			}
			if err := b.RemoveUser(ctx, "bob"); err != nil {
				t.Fatal(err)
			}
			if left, err := store.List(ctx, keyToken); err != nil || len(left) != 3 {
				t.Errorf("its token is kept: %d, %v", len(left), err)
			}
			if _, known, err := b.Authenticate(ctx, bob.Token); known || err != nil {
				t.Errorf("its token is known: %v, %v", known, err)
			}
			again := mustCreate(t, b, "bob", dev("shop"))
			mustKnow(t, b, again.Token)
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A token that cannot be read lets nobody in, whatever its user may.
func TestATokenThatCannotBeRead(t *testing.T) {
	b, store, _ := newBook("")
	u := mustCreate(t, b, "ann", dev("shop"))
	hash, err := tokens.HashBearer(u.Token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Commit(t.Context(), bus.Put(keyToken+hash, []byte(`{"user":"ann"`))); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Authenticate(t.Context(), u.Token); !known || code(err) != "record-unreadable" {
		t.Errorf("%v, %v", known, err)
	}
}

// An entry of the audit log that cannot be read is shown as such, whoever it was of, and
// others are recorded after it.
func TestAnEntryThatCannotBeRead(t *testing.T) {
	l, store, _ := newLog()
	noted(t, l, "user/ann", "apply")
	noted(t, l, "user/bob", "delete")
	if _, err := store.Put(t.Context(), auditKey(1), []byte(`{"who":`)); err != nil {
		t.Fatal(err)
	}
	l.read = false // as after a start
	noted(t, l, "user/ann", "scale")
	for _, q := range []apiv1.AuditQuery{{}, {User: "ann"}, {Since: start}} {
		page := read(t, l, q)
		if len(page.Entries) < 2 || page.Entries[0].Seq != 1 || page.Entries[0].Result != "unreadable" ||
			!strings.Contains(page.Entries[0].Detail, auditKey(1)) {
			t.Errorf("%+v: %+v", q, page.Entries)
		}
		if last := page.Entries[len(page.Entries)-1]; last.Seq != 3 || last.What != "scale" {
			t.Errorf("%+v: %+v", q, last)
		}
	}
}
