package users

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Two engines of one machine never give the same user to two instances; an instance keeps
// its own over restarts and gives it back when it is gone.
func TestUsersOfAMachine(t *testing.T) {
	claims, base := t.TempDir(), t.TempDir()
	engine := func(name string) *Pool {
		u := New(claims, filepath.Join(base, name))
		u.size = 4 // so that they meet
		return u
	}
	here := func(u *Pool, ids ...string) {
		for _, id := range ids {
			if err := os.MkdirAll(u.place(id), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	a, b := engine("a"), engine("b")
	here(a, "x.y.0", "x.y.1")
	here(b, "x.y.0", "x.y.1")
	given := map[uint32]string{}
	first := map[string]uint32{}
	for name, u := range map[string]*Pool{"a": a, "b": b} {
		for _, id := range []string{"x.y.0", "x.y.1"} {
			uid, err := u.Give(id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if given[uid] != "" || uid < FirstUser || uid >= FirstUser+4 {
				t.Errorf("%s of %s has %d, which is that of %q", id, name, uid, given[uid])
			}
			given[uid] = name + id
			first[name+id] = uid
		}
	}
	here(a, "x.y.2")
	if uid, err := a.Give("x.y.2", 0); err == nil {
		t.Errorf("all are taken, and yet %d was given", uid)
	}
	// The next engine of a directory has what its records say.
	a = engine("a")
	if uid, err := a.Give("x.y.1", first["ax.y.1"]); err != nil || uid != first["ax.y.1"] {
		t.Errorf("after a restart: %d, %v, want %d", uid, err, first["ax.y.1"])
	}
	// What is said to be another's is not given, though a record says so.
	if uid, err := a.Give("x.y.2", first["bx.y.0"]); err == nil {
		t.Errorf("another's user %d was given", uid)
	}
	if err := a.Release("x.y.1"); err != nil {
		t.Fatal(err)
	}
	if uid, err := a.Give("x.y.2", 0); err != nil || uid != first["ax.y.1"] {
		t.Errorf("a released one: %d, %v", uid, err)
	}
	// An engine that is gone with its directory holds nothing.
	if err := os.RemoveAll(filepath.Join(base, "b")); err != nil {
		t.Fatal(err)
	}
	here(a, "x.y.3")
	if uid, err := a.Give("x.y.3", 0); err != nil || !strings.HasPrefix(given[uid], "b") {
		t.Errorf("what a lost engine had: %d, %v", uid, err)
	}
}

func TestOlderRunAsRoot(t *testing.T) {
	u := New(t.TempDir(), t.TempDir())
	if text := u.Note("a.b.0", false); text != "" {
		t.Errorf("%q", text)
	}
	u.Note("a.b.1", true)
	if text := u.Note("a.b.0", true); !strings.Contains(text, "a.b.0, a.b.1;") ||
		!strings.Contains(text, "allow=host-root") {
		t.Errorf("%q", text)
	}
	u.Note("a.b.1", false)
	if text := u.Note("a.b.0", false); text != "" {
		t.Errorf("%q", text)
	}
}

func TestWhichUsersAWorkerAllows(t *testing.T) {
	isolated, open := &wire.Isolation{Users: true}, &wire.Isolation{Why: "the worker does not run as root"}
	for _, c := range []struct {
		user    string
		allowed []string
		how     *wire.Isolation
		want    string
	}{
		{"", nil, isolated, ""},
		{"", nil, open, ""},
		{"root", nil, isolated, "--allow-host-user root"},
		{"root", []string{"www-data"}, isolated, "--allow-host-user root"},
		{"0", []string{"root"}, isolated, ""},
		{"www-data", []string{"root", "www-data"}, isolated, ""},
		{"www-data:docker", []string{"www-data"}, isolated, "--allow-host-user www-data:docker"},
		{"root", []string{"root"}, open, "does not run as root"},
	} {
		got := Refuses(&api.Service{User: c.user}, c.allowed, c.how)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("user %q where %q are allowed: %q, want %q", c.user, c.allowed, got, c.want)
		}
	}
	if got := Refuses(&api.Service{User: "root", Runtime: api.Container}, nil, isolated); got != "" {
		t.Errorf("a container: %q", got)
	}
}

// What is given to another user is given as a whole, or again.
func TestOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: files of other users; needs root")
	}
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	inner := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(filepath.Dir(inner), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{inner, outside} {
		if err := os.WriteFile(f, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	u, err := Lookup("12345")
	if err != nil {
		t.Fatal(err)
	}
	if err := Chown(dir, u); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{dir, filepath.Dir(inner), inner, filepath.Join(dir, "link")} {
		if !ownedBy(f, 12345, 12345) {
			t.Errorf("%s was not given", f)
		}
	}
	if !ownedBy(outside, 0, 0) {
		t.Error("what a link leads to was given")
	}
	if u, err = Lookup("12345:777"); err != nil {
		t.Fatal(err)
	}
	if err := Chown(dir, u); err != nil || !ownedBy(inner, 12345, 777) {
		t.Errorf("to another group: %v", err)
	}
	if err := Chown(dir, nil); err != nil || !ownedBy(inner, 0, 0) {
		t.Errorf("back to root: %v", err)
	}
}
