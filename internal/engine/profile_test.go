package engine

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func (b *bench) profile(owner string, q wire.ProfileAsk) (wire.ProfileNode, string) {
	b.t.Helper()
	q.App, q.Service = "shop", "web"
	a, code := b.exec(wire.ExecAsk{Do: wire.ExecDoProfile, Owner: owner, Profile: &q})
	if code != "" {
		return wire.ProfileNode{}, code
	}
	return a.Profile.Nodes[0], ""
}

// An engine keeps its own instances busy by their real queues, for one at a time, and
// says what came of it.
func TestProfileOfRealInstance(t *testing.T) {
	b := newBench(t)
	b.apply(server(t))
	b.ready(0)
	start := wire.ProfileAsk{Do: wire.ProfileStart, Key: "12345678", Instances: []string{web0}, Load: &wire.ProfileLoad{Port: "http", For: api.Duration(time.Second), Concurrency: 2}}
	n, code := b.profile("ann", start)
	if code != "" || n.State != wire.ProfileRuns || n.Concurrency != 2 || n.Instances != 1 {
		t.Fatalf("%+v %s", n, code)
	}
	if _, code := b.profile("ann", start); code != "" {
		t.Errorf("the same question again: %s", code)
	}
	second := start
	second.Key = "another1"
	if _, code := b.profile("ann", second); code != "profiled-already" {
		t.Errorf("a second one: %q", code)
	}
	if _, code := b.profile("bob", wire.ProfileAsk{Do: wire.ProfileLook, Key: "12345678"}); code != "not-profiled" {
		t.Errorf("another's: %q", code)
	}
	look := wire.ProfileAsk{Do: wire.ProfileLook, Key: "12345678"}
	b.until("it is over", func() bool {
		n, code = b.profile("ann", look)
		return code == "" && n.State != wire.ProfileRuns
	})
	if n.State != wire.ProfileDone || n.Requests < 2 || n.Errors != 0 || n.Span.Std() != time.Second || n.Mean <= 0 || n.P99 < n.P50 {
		t.Errorf("%+v", n)
	}

	// What is not there.
	second.Load = &wire.ProfileLoad{Port: "http", Path: "/absent", For: api.Duration(time.Minute)}
	if _, code := b.profile("ann", second); code != "" {
		t.Fatal(code)
	}
	look.Key = second.Key
	b.until("it has failed", func() bool {
		n, code = b.profile("ann", look)
		return code == "" && n.State == wire.ProfileFailed
	})
	if n.Requests != 0 || n.Problem == "" {
		t.Errorf("%+v", n)
	}
	for want, q := range map[string]wire.ProfileAsk{
		"no-instance":  {Instances: []string{"shop.web.7"}, Load: &wire.ProfileLoad{}},
		"no-http":      {Instances: []string{web0}, Load: &wire.ProfileLoad{Port: "other"}},
		"bad-path":     {Instances: []string{web0}, Load: &wire.ProfileLoad{Path: "http://elsewhere/"}},
		"not-profiled": {},
	} {
		q.Do, q.Key = wire.ProfileStart, "some-key-"+want
		if _, code := b.profile("ann", q); code != want {
			t.Errorf("%q, want %s", code, want)
		}
	}

	// Who breaks off.
	third := start
	third.Key, third.Load = "anotherone", &wire.ProfileLoad{Port: "http", For: api.Duration(10 * time.Minute)}
	if n, code := b.profile("ann", third); code != "" || n.Concurrency == 0 {
		t.Fatalf("%+v %s", n, code)
	}
	b.profile("ann", wire.ProfileAsk{Do: wire.ProfileEnd, Key: third.Key})
	look.Key = third.Key
	b.until("it has ended", func() bool {
		n, _ := b.profile("ann", look)
		return n.State == wire.ProfileFailed
	})
}
