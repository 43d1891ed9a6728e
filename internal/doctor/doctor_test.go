package doctor

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// the finds one finding, and checks what is true of all.
func the(t *testing.T, all []Finding, check string) Finding {
	t.Helper()
	for _, f := range all {
		if (f.Remedy == "" || f.Page == "") != (f.Status == OK) {
			t.Errorf("%s is %s, with the remedy %q on page %q", f.Check, f.Status, f.Remedy, f.Page)
		}
		if f.Page != "" {
			file, anchor, _ := strings.Cut(f.Page, "#")
			text, err := os.ReadFile(filepath.Join("../..", file))
			if err != nil || !hasHeading(string(text), anchor) {
				t.Errorf("%s: there is no page %s", f.Check, f.Page)
			}
		}
	}
	for _, f := range all {
		if f.Check == check {
			return f
		}
	}
	t.Fatalf("nothing about %s in %+v", check, all)
	return Finding{}
}

func hasHeading(text, anchor string) bool {
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") &&
			strings.ReplaceAll(strings.ToLower(strings.TrimSpace(h)), " ", "-") == anchor {
			return true
		}
	}
	return false
}

func TestMachine(t *testing.T) {
	all := Machine(now)
	if f := the(t, all, "clock"); f.Status != OK {
		t.Errorf("%+v", f)
	}
	if f := the(t, Machine(time.Unix(0, 0)), "clock"); f.Status != Warn || !strings.Contains(f.Detail, "1970") {
		t.Errorf("%+v", f)
	}
	the(t, workerKernel(), "control groups")
}

func TestSkew(t *testing.T) {
	for _, c := range []struct {
		theirs time.Time
		want   Status
		word   string
	}{
		{now.Add(2 * time.Second), OK, "within"},
		{now.Add(time.Hour), Warn, "1h0m0s ahead of"},
		{now.Add(-366 * 24 * time.Hour), Warn, "behind"},
	} {
		if f := Skew("root x", c.theirs, now, 100*time.Millisecond); f.Status != c.want ||
			!strings.Contains(f.Detail, c.word) {
			t.Errorf("%+v", f)
		}
	}
}

func TestFilesAndPorts(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := Node{Role: "worker", Dir: filepath.Join(dir, "later"),
		Listen: map[string]string{"data": l.Addr().String(), "gateway": "127.0.0.1:0", "api": ""}}
	all := n.Look(ctx, now)
	for check, want := range map[string]Status{"data directory": Note, "port --data": Note, "port --gateway": OK,
		"join": Warn} {
		if f := the(t, all, check); f.Status != want {
			t.Errorf("%+v", f)
		}
	}
	n.Dir, n.TokenFile = dir, "t"
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	all = n.Look(ctx, now)
	for check, want := range map[string]Status{"data directory": Warn, "join": Note} {
		if f := the(t, all, check); f.Status != want {
			t.Errorf("%+v", f)
		}
	}
	n.Dir = filepath.Join(dir, "file")
	if err := os.WriteFile(n.Dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := the(t, n.Look(ctx, now), "data directory"); f.Status != Fail {
		t.Errorf("%+v", f)
	}
}

func TestIdentityAndLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca, err := pki.OpenAuthority(t.TempDir(), now)
	if err != nil {
		t.Fatal(err)
	}
	public, err := pki.EnsureKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := ca.Issue(pki.LeafRequest{Subject: pki.Subject{Role: pki.RoleRoot}, PublicKey: public}, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := pki.SaveIdentity(dir, chain, ca.PEM()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	joined, err := json.Marshal(rpc.JoinReply{V: wire.Version, Cluster: "edge", Root: "r",
		Link: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "joined.json"), joined, 0o600); err != nil {
		t.Fatal(err)
	}
	n := Node{Role: "cluster", Dir: dir}
	for at, want := range map[time.Duration]Status{
		time.Hour: OK, 200 * 24 * time.Hour: Note, 400 * 24 * time.Hour: Fail, -400 * 24 * time.Hour: Warn,
	} {
		all := n.Look(t.Context(), now.Add(at))
		if f := the(t, all, "certificate"); f.Status != want {
			t.Errorf("after %s: %+v", at, f)
		}
		if f := the(t, all, "link"); f.Status != OK {
			t.Errorf("%+v", f)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if f := the(t, n.Look(t.Context(), now), "link"); f.Status != Warn {
		t.Errorf("%+v", f)
	}
	for name, want := range map[string]string{"joined.json": "join", "identity.pem": "certificate"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
		all := n.Look(t.Context(), now)
		if want == "certificate" {
			all = n.identity(dir, now)
		}
		if f := the(t, all, want); f.Status != Fail {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
