package enroll

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// joinedNode is a node with an identity in a folder.
func joinedNode(t *testing.T) Node {
	t.Helper()
	n := Node{Dir: t.TempDir(), Kind: tokens.KindWorker, Name: "w1", Public: pki.EnsureKey}
	if _, err := n.Public(n.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := Key(n.Dir); err != nil {
		t.Fatal(err)
	}
	if err := SaveJoined(n.Dir, rpc.JoinReply{V: wire.Version, Cluster: "edge", BusJWT: "old"}); err != nil {
		t.Fatal(err)
	}
	return n
}

// A node that was refused keeps its identity until it has another one.
func TestARefusedNodeKeepsItsIdentity(t *testing.T) {
	for _, code := range []string{rpc.CodeRemoved, rpc.CodeUnknown} {
		n := joinedNode(t)
		public, err := n.Public(n.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := MarkRefused(n.Dir, wire.Problem{Code: code, Title: "refused"}, public); err != nil {
			t.Fatal(err)
		}
		if got, err := n.Join(t.Context()); err != nil || got.BusJWT != "old" {
			t.Errorf("%s, without a token: %+v, %v", code, got, err)
		}
		n.TokenFile = filepath.Join(n.Dir, "nowhere")
		warned := ""
		n.Warn = func(s string) { warned = s }
		if got, err := n.Join(t.Context()); err != nil || got.BusJWT != "old" || warned == "" {
			t.Errorf("%s, with a bad token: %+v, %v, warned %q", code, got, err, warned)
		}
		if again, err := n.Public(n.Dir); err != nil || string(again) != string(public) {
			t.Errorf("%s: the key was lost: %v", code, err)
		}
	}
	// A note about another key means nothing, and neither does a damaged one.
	n := joinedNode(t)
	n.TokenFile = filepath.Join(n.Dir, "nowhere")
	n.Warn = func(s string) { t.Errorf("it tried to join again: %s", s) }
	if err := MarkRefused(n.Dir, wire.Problem{Code: rpc.CodeRevoked}, []byte("another")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Join(t.Context()); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(n.Dir, refusedFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Join(t.Context()); err != nil {
		t.Error(err)
	}
}

// A token that a node has not seen makes it ask, once, whether what it has counts;
// it keeps that unless it is told for good that it does not.
func TestANewTokenMakesANodeAsk(t *testing.T) {
	token := func(n Node, ttl time.Duration, now time.Time) string {
		t.Helper()
		tok, _, err := tokens.New(tokens.KindWorker, "edge", []string{"127.0.0.1:1"}, pki.ClusterName("edge"),
			strings.Repeat("0", 64), ttl, now)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(n.Dir, "token")
		if err := os.WriteFile(path, []byte(tok.Encode()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	gone := wire.Problemf(403, rpc.CodeRemoved, "join again", "this node was removed", "worker w1")
	for name, c := range map[string]struct {
		err   error
		again bool   // it asks again at the next start
		warns string // a part of what it says
	}{
		"it counts":           {nil, false, "is not used"},
		"it counted just now": {wire.Problemf(429, CodeTooSoon, "wait", "renewed", ""), false, "is not used"},
		"nobody can be asked": {errors.New("no route to host"), true, "no route to host"},
		"overloaded":          {wire.Problemf(429, "too-many-renewals", "wait", "too many", ""), true, "too many"},
		"it was removed":      {gone, true, "could not join again"}, // nobody answers at the address of the token
	} {
		n := joinedNode(t)
		n.Clock = pki.OpenClock(t.TempDir())
		n.Save = func(string, rpc.JoinReply) error { return nil }
		asked, said := 0, ""
		n.Warn = func(s string) { said += s + "\n" }
		n.Ask = func(_ context.Context, have rpc.JoinReply) (rpc.JoinReply, error) {
			asked++
			return rpc.JoinReply{V: wire.Version, Cluster: have.Cluster, BusJWT: "certified again"}, c.err
		}
		if _, err := n.Join(t.Context()); err != nil || asked != 0 {
			t.Errorf("%s: without a token it asked %d times, %v", name, asked, err)
		}
		n.TokenFile = token(n, time.Hour, time.Now().Add(-2*time.Hour))
		if _, err := n.Join(t.Context()); err != nil || asked != 0 {
			t.Errorf("%s: for a token that has expired it asked %d times, %v", name, asked, err)
		}
		n.TokenFile = token(n, time.Hour, time.Now())
		want := "old"
		if c.err == nil {
			want = "certified again"
		}
		for range 2 {
			if got, err := n.Join(t.Context()); err != nil || got.BusJWT != want {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		if (asked == 2) != c.again || asked == 0 || !strings.Contains(said, c.warns) {
			t.Errorf("%s: it asked %d times and said %s", name, asked, said)
		}
	}
}

// A crash while a new identity takes the place of the old one is made good.
func TestACrashWhileJoiningAgain(t *testing.T) {
	for moved := range 4 {
		n := joinedNode(t)
		dir := filepath.Join(n.Dir, rejoinDir)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		public, err := pki.EnsureKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		key, err := Key(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := SaveJoined(dir, rpc.JoinReply{V: wire.Version, Cluster: "edge", BusJWT: "new"}); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"key.pem", busKeyFile, joinedFile} {
			if i >= moved {
				break
			}
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(n.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := n.Join(t.Context())
		if err != nil || got.BusJWT != "new" {
			t.Fatalf("after %d files: %+v, %v", moved, got, err)
		}
		if p, err := n.Public(n.Dir); err != nil || string(p) != string(public) {
			t.Errorf("after %d files another key is used: %v", moved, err)
		}
		if k, err := Key(n.Dir); err != nil || k.Public() != key.Public() {
			t.Errorf("after %d files another bus key is used: %v", moved, err)
		}
	}
	// What is not complete changes nothing.
	n := joinedNode(t)
	if err := os.MkdirAll(filepath.Join(n.Dir, rejoinDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.EnsureKey(filepath.Join(n.Dir, rejoinDir)); err != nil {
		t.Fatal(err)
	}
	if got, err := n.Join(t.Context()); err != nil || got.BusJWT != "old" {
		t.Errorf("an attempt that failed: %+v, %v", got, err)
	}
	if _, err := Joined(filepath.Join(n.Dir, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
