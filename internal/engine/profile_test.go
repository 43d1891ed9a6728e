package engine

import (
	"strings"
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
	b.apply(serverOrder(t))
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

// A port for gRPC is asked by unary calls of a method that is given; how they end is in
// their trailers.
func TestProfileOfGRPC(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	o.Spec.Env[beServer] = "grpc"
	o.Spec.Ports[0].Protocol = "grpc"
	b.apply(o)
	b.ready(0)
	run := func(key string, load wire.ProfileLoad) wire.ProfileNode {
		t.Helper()
		load.For = api.Duration(time.Second)
		n, code := b.profile("ann", wire.ProfileAsk{Do: wire.ProfileStart, Key: key, Instances: []string{web0}, Load: &load})
		if code != "" {
			t.Fatal(code)
		}
		b.until("it is over", func() bool {
			n, code = b.profile("ann", wire.ProfileAsk{Do: wire.ProfileLook, Key: key})
			return code == "" && n.State != wire.ProfileRuns
		})
		return n
	}
	if n := run("12345678", wire.ProfileLoad{Path: "/shop.Stock/Get", Body: []byte("id")}); n.State != wire.ProfileDone || n.Requests < 2 || n.Errors != 0 {
		t.Errorf("%+v", n)
	}
	if n := run("12345679", wire.ProfileLoad{Path: "/shop.Stock/Get"}); n.State != wire.ProfileFailed || n.Requests != 0 || !strings.Contains(n.Problem, "gRPC status 3") {
		t.Errorf("a message that it does not take: %+v", n)
	}
	if n := run("12345670", wire.ProfileLoad{Path: "/shop.Stock/Put"}); n.State != wire.ProfileFailed || !strings.Contains(n.Problem, "without a status of gRPC") {
		t.Errorf("what does not speak gRPC: %+v", n)
	}
	for what, load := range map[string]wire.ProfileLoad{
		"no method":      {},
		"half a method":  {Path: "/shop.Stock"},
		"GET":            {Path: "/shop.Stock/Get", Method: "GET"},
		"something else": {Path: "/shop.Stock/Get", Type: "text/plain"},
	} {
		if _, code := b.profile("ann", wire.ProfileAsk{Do: wire.ProfileStart, Key: "key-of-" + what, Instances: []string{web0}, Load: &load}); code != "no-call" {
			t.Errorf("%s: %q", what, code)
		}
	}
}
