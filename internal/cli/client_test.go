package cli

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

func TestNoContext(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	f.env = map[string]string{"HOME": f.dir}
	f.golden("context-none", f.run("status"), "status")
	f.env["VERGE_CONTEXT"] = filepath.Join(f.dir, "nothing.yaml")
	f.golden("context-missing-file", f.run("status"), "status")
	f.golden("context-unknown", f.run("status", "--context", "prod"), "status", "--context", "prod")
	f.golden("context-bad-name", f.run("status", "--context", ".."), "status", "--context", "..")
	// Without a server, these still work.
	for _, args := range [][]string{{"version"}, {"schema"}, {"context", "list"}} {
		if r := f.run(args...); r.code != 0 {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// Flag, then environment, then the current context.
func TestWhichContext(t *testing.T) {
	f := newFixture(t, world())
	good := f.env["VERGE_CONTEXT"]
	dead := f.entry
	dead.Name, dead.Server = "dead", "https://127.0.0.1:1"
	bad := filepath.Join(f.dir, "dead.yaml")
	if err := client.WriteContext(bad, dead); err != nil {
		t.Fatal(err)
	}
	if r := f.run("context", "use", good); r.code != 0 || r.stdout != "context test is in use\n" {
		t.Fatalf("%+v", r)
	}
	if r := f.run("context", "use", bad); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	if r := f.run("context", "use", "test"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	f.golden("context-list", f.run("context", "list"), "context", "list")

	status := func(env string, args ...string) int {
		f.env["VERGE_CONTEXT"] = env
		return f.run(append([]string{"status"}, args...)...).code
	}
	for _, c := range []struct {
		name string
		got  int
		want int
	}{
		{"current", status(""), 0},
		{"environment before current", status(bad), 1},
		{"flag before environment", status(bad, "--context", "test"), 0},
		{"file in flag", status("", "--context", bad), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: exit %d", c.name, c.got)
		}
	}
	info, err := os.Stat(filepath.Join(f.dir, ".config/verge/contexts/test.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", info, err)
	}
}

func TestContextUseKeepsAnothersFile(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	if r := f.run("context", "use", f.env["VERGE_CONTEXT"]); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	other := f.entry
	other.Server = "https://elsewhere:8470"
	path := filepath.Join(f.dir, "other.yaml")
	if err := client.WriteContext(path, other); err != nil {
		t.Fatal(err)
	}
	if r := f.run("context", "use", path); r.code != 1 || !strings.Contains(r.stderr,
		"another context is called test") {
		t.Errorf("%+v", r)
	}
}

func TestContextShowHasNoSecrets(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	for _, mode := range []string{"table", "json", "yaml"} {
		r := f.run("context", "show", "-o", mode)
		if r.code != 0 || strings.Contains(r.stdout, "KEY") || !strings.Contains(r.stdout, "certificate") {
			t.Errorf("%s: %+v", mode, r)
		}
	}
}

func TestWhatGoesWrongOnTheWay(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*client.Context){
		"unreachable":      func(e *client.Context) { e.Server = "https://" + closed },
		"wrong-ca":         func(e *client.Context) { e.CA = resttest.NewAuthority(t).Context(t, "", "x:1").CA },
		"unauthenticated":  func(e *client.Context) { e.Cert, e.Key = "", "" },
		"foreign-identity": func(e *client.Context) { e.Cert, e.Key = resttest.NewAuthority(t).Issue(t, "admin") },
		"wrong-name":       func(e *client.Context) { e.ServerName = "root.example" },
	} {
		e := f.entry
		change(&e)
		path := filepath.Join(f.dir, name+".yaml")
		if err := client.WriteContext(path, e); err != nil {
			t.Fatal(err)
		}
		r := f.run("status", "--context", path)
		r.stderr = strings.ReplaceAll(r.stderr, closed, "CLOSED")
		f.golden("error-"+name, r, "status")
	}
}

func TestLogsFollowUntilInterrupted(t *testing.T) {
	fake := world()
	ctx, cancel := context.WithCancel(t.Context())
	fake.LogText["guestbook.front.0"] = "one\n"
	reads := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op == "logs" {
			switch reads++; reads {
			case 3:
				f.LogText["guestbook.front.0"] += "two\n"
			case 5:
				cancel()
			}
		}
		return nil
	}
	f := newFixture(t, fake)
	if r := f.runContext(ctx, "", "logs", "guestbook.front.0", "-f"); r.code != 0 || r.stdout != "one\ntwo\n" {
		t.Errorf("%+v", r)
	}
}
