package repair

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/cluster"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/root"
	"github.com/verge-edge/verge/internal/wire"
)

var quiet = slog.New(slog.DiscardHandler)

func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

func startRoot(t *testing.T, dir string) (*root.Root, error) {
	t.Helper()
	return root.Start(t.Context(), root.Options{Dir: dir, APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0", Log: quiet})
}

// damaged is the data directory of a root that has stopped, with records that cannot be read.
func damaged(t *testing.T, bad map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	r, err := startRoot(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	store(t, dir, func(ctx context.Context, s bus.Store) error {
		var ops []bus.Op
		for key, value := range bad {
			ops = append(ops, bus.Put(key, []byte(value)))
		}
		_, err := s.Commit(ctx, ops...)
		return err
	})
	return dir
}

func store(t *testing.T, dir string, fn func(context.Context, bus.Store) error) {
	t.Helper()
	if err := busserver.Edit(t.Context(), storeDir(dir), quiet,
		func(s bus.Store) error { return fn(t.Context(), s) }); err != nil {
		t.Fatal(err)
	}
}

func drop(t *testing.T, dir string, q cli.DropRecord) (string, error) {
	t.Helper()
	q.Who, q.Now = "local/ann", time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Drop(t.Context(), dir, q, quiet)
}

// A root that does not start because of records that it cannot read: they are listed, shown
// as they are, and dropped one by one, each as much confirmed as hangs on it; the root starts
// then, and its audit log says who did that. What was dropped can be put back.
func TestDropWhatARootCannotRead(t *testing.T) {
	bad := map[string]string{
		"gone.aa":     `{"v":1,`,                  // who is let in: it does not start
		"app.shop":    `{"v":1,"secret":`,         // it decides nothing
		"app.other":   `{"v":2,"name":"other"}`,   // newer
		"user.bob":    `{"v":`,                    // looked at when it is needed
		"object/a/b":  `[]`,                       // the same
		"ns.fine":     `{"v":1,"name":"fine"}`,    // can be read
		"audit.00ff":  `{`,                        // what is known of what people did
		"why.a.b.0":   `{"v":1,"at":"yesterday"}`, // nothing follows
		"restored":    `{"v":1,"at":7}`,           // who has been asked after a restore
		"other.thing": `what nobody knows`,        // of no kind
	}
	dir := damaged(t, bad)
	if r, err := startRoot(t, dir); err == nil {
		r.Close()
		t.Fatal("it starts")
	} else if !strings.Contains(err.Error(), "gone.aa") || !strings.Contains(err.Error(), "verge records ls") {
		t.Fatal(err)
	}
	list, err := List(t.Context(), dir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]cli.LostRecord{}
	for _, l := range list {
		found[l.Key] = l
		if string(l.Value) != bad[l.Key] || l.Drop == "" || l.Why == "" {
			t.Errorf("%+v", l)
		}
	}
	for key := range bad {
		if _, is := found[key]; is == (key == "ns.fine" || key == "other.thing") {
			t.Errorf("%s is listed: %v", key, is)
		}
	}
	if l := list[0]; l.Role != "does not start" || !l.Security || !l.Confirm {
		t.Errorf("first is %+v", l)
	}
	if l := found["app.shop"]; l.Role != "decides nothing" || l.Security || !l.Confirm ||
		!strings.Contains(l.Drop, "nothing of it ends") {
		t.Errorf("%+v", l)
	}
	if l := found["user.bob"]; l.Role != "goes on without" || l.Security || l.Confirm {
		t.Errorf("%+v", l)
	}

	// What is not allowed changes nothing.
	for want, q := range map[string]cli.DropRecord{
		"no-such-record":  {Key: "ns.fine"},
		"not-confirmed":   {Key: "app.shop"},
		"security-record": {Key: "gone.aa", Confirm: "gone.aa"},
		"newer-record":    {Key: "app.other", Confirm: "app.other"},
		"mark-unreadable": {Key: "app.shop", Confirm: "app.shop"},
	} {
		if path, err := drop(t, dir, q); code(err) != want || path != "" {
			t.Errorf("%+v: %v, saved as %q", q, err, path)
		}
	}
	if path, err := drop(t, dir,
		cli.DropRecord{Key: "gone.aa", Security: true, Confirm: "gone.a"}); code(err) != "not-confirmed" {
		t.Errorf("%v, saved as %q", err, path)
	}
	if again, err := List(t.Context(), dir, quiet); err != nil || len(again) != len(list) {
		t.Fatalf("%d are left of %d, %v", len(again), len(list), err)
	}
	if _, err := os.Stat(filepath.Join(dir, savedDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was saved: %v", err)
	}

	saved := map[string]string{}
	for _, q := range []cli.DropRecord{
		{Key: "restored", Confirm: "restored", Security: true},
		{Key: "gone.aa", Confirm: "gone.aa", Security: true},
		{Key: "app.shop", Confirm: "app.shop"},
		{Key: "app.other", Confirm: "app.other", Newer: true},
		{Key: "audit.00ff", Confirm: "audit.00ff", Security: true},
		{Key: "user.bob"}, {Key: "object/a/b"}, {Key: "why.a.b.0"},
	} {
		path, err := drop(t, dir, q)
		if err != nil {
			t.Fatalf("%s: %v", q.Key, err)
		}
		saved[q.Key] = path
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", path, err)
		}
	}
	if list, err := List(t.Context(), dir, quiet); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	store(t, dir, func(ctx context.Context, s bus.Store) error {
		e, err := s.Get(ctx, backup.MarkKey)
		if err != nil || strings.Contains(string(e.Value), "dropped") {
			t.Errorf("a restore that went on is marked as %s, %v", e.Value, err)
		}
		return nil
	})
	r, err := startRoot(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	store(t, dir, func(ctx context.Context, s bus.Store) error {
		log := people.Log{Store: s, Now: time.Now}
		page, err := log.Audit(access.With(ctx, access.Who{Admin: true}), apiv1.AuditQuery{User: "local/ann"})
		said := map[string]bool{}
		for _, e := range page.Entries {
			said[e.On] = e.What == "drop-record" && strings.Contains(e.Detail, dir)
		}
		if err != nil || len(said) != len(saved) || !said["record/app.shop"] {
			t.Errorf("the audit log has %+v, %v", page.Entries, err)
		}
		return nil
	})

	// Back again, as it was, unless there is another one now.
	for key, path := range saved {
		got, err := PutBack(t.Context(), dir, path, cli.DropRecord{Who: "local/ann", Now: time.Now()}, quiet)
		if key == backup.MarkKey {
			if code(err) != "record-there" {
				t.Errorf("%s: %v", key, err)
			}
			continue
		}
		if got != key || err != nil {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	store(t, dir, func(ctx context.Context, s bus.Store) error {
		for key := range saved {
			if e, err := s.Get(ctx, key); key != backup.MarkKey && (err != nil || string(e.Value) != bad[key]) {
				t.Errorf("%s is %q, %v", key, e.Value, err)
			}
		}
		return nil
	})
}

// Only the store of a root or cluster that does not run is touched, and only what was saved
// is put back.
func TestWhereNothingIsDropped(t *testing.T) {
	if _, err := List(t.Context(), t.TempDir(), quiet); code(err) != "no-store" {
		t.Errorf("an empty directory: %v", err)
	}
	dir := t.TempDir()
	r, err := startRoot(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := List(t.Context(), dir, quiet); code(err) != "role-running" {
		t.Errorf("of a root that runs: %v", err)
	}
	if _, err := drop(t, dir, cli.DropRecord{Key: "user.bob"}); code(err) != "role-running" {
		t.Errorf("of a root that runs: %v", err)
	}
	r.Close()
	file := filepath.Join(t.TempDir(), "x.json")
	for what, text := range map[string]string{"rubbish": `no`, "newer": `{"v":9,"role":"root","key":"a"}`,
		"of a cluster": `{"v":1,"role":"cluster","key":"a","value":"eA=="}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if key, err := PutBack(t.Context(), dir, file, cli.DropRecord{Now: time.Now()}, quiet); err == nil {
			t.Errorf("%s is put back: %s", what, key)
		}
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, err := List(t.Context(), dir, quiet); code(err) != "other-user" {
			t.Errorf("of another user: %v", err)
		}
	}
}

// Whatever a role keeps has a kind that says what follows when it is dropped, and no two of
// them the same keys.
func TestKinds(t *testing.T) {
	for name, kinds := range map[string]func() []string{
		"root": func() (out []string) {
			for _, k := range root.Kinds() {
				out = append(out, k.Prefix+"|"+k.Drop)
			}
			return out
		},
		"cluster": func() (out []string) {
			for _, k := range cluster.Kinds() {
				out = append(out, k.Prefix+"|"+k.Drop)
			}
			return out
		},
	} {
		seen := map[string]bool{}
		for _, k := range kinds() {
			prefix, drop, _ := strings.Cut(k, "|")
			if prefix == "" || drop == "" || seen[prefix] {
				t.Errorf("%s: %q: %q", name, prefix, drop)
			}
			seen[prefix] = true
		}
	}
}
