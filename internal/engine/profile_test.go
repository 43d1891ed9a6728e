package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (b *bench) profile(owner string, q rpc.ProfileAsk) (rpc.ProfileNode, string) {
	b.t.Helper()
	q.App, q.Service = "shop", "web"
	a, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoProfile, Owner: owner, Profile: &q})
	if code != "" {
		return rpc.ProfileNode{}, code
	}
	return a.Profile.Nodes[0], ""
}

// An engine keeps its own instances busy by their real queues, for one at a time, and
// says what came of it.
func TestProfileOfRealInstance(t *testing.T) {
	b := newBench(t)
	b.apply(serverOrder(t))
	b.ready(0)
	start := rpc.ProfileAsk{Do: rpc.ProfileStart, Key: "12345678", Instances: []string{web0},
		Load: &rpc.ProfileLoad{Port: "http", For: api.Duration(time.Second), Concurrency: 2}}
	n, code := b.profile("ann", start)
	if code != "" || n.State != rpc.ProfileRuns || n.Concurrency != 2 || n.Instances != 1 {
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
	if _, code := b.profile("bob", rpc.ProfileAsk{Do: rpc.ProfileLook, Key: "12345678"}); code != "not-profiled" {
		t.Errorf("another's: %q", code)
	}
	look := rpc.ProfileAsk{Do: rpc.ProfileLook, Key: "12345678"}
	b.until("it is over", func() bool {
		n, code = b.profile("ann", look)
		return code == "" && n.State != rpc.ProfileRuns
	})
	if n.State != rpc.ProfileDone || n.Requests < 2 || n.Errors != 0 || n.Span.Std() != time.Second || n.Mean <= 0 ||
		n.P99 < n.P50 {
		t.Errorf("%+v", n)
	}

	// What is not there.
	second.Load = &rpc.ProfileLoad{Port: "http", Path: "/absent", For: api.Duration(time.Minute)}
	if _, code := b.profile("ann", second); code != "" {
		t.Fatal(code)
	}
	look.Key = second.Key
	b.until("it has failed", func() bool {
		n, code = b.profile("ann", look)
		return code == "" && n.State == rpc.ProfileFailed
	})
	if n.Requests != 0 || n.Problem == "" {
		t.Errorf("%+v", n)
	}
	for want, q := range map[string]rpc.ProfileAsk{
		"no-instance":  {Instances: []string{"shop.web.7"}, Load: &rpc.ProfileLoad{}},
		"no-http":      {Instances: []string{web0}, Load: &rpc.ProfileLoad{Port: "other"}},
		"bad-path":     {Instances: []string{web0}, Load: &rpc.ProfileLoad{Path: "http://elsewhere/"}},
		"not-profiled": {},
	} {
		q.Do, q.Key = rpc.ProfileStart, "some-key-"+want
		if _, code := b.profile("ann", q); code != want {
			t.Errorf("%q, want %s", code, want)
		}
	}

	// Who breaks off.
	third := start
	third.Key, third.Load = "anotherone", &rpc.ProfileLoad{Port: "http", For: api.Duration(10 * time.Minute)}
	if n, code := b.profile("ann", third); code != "" || n.Concurrency == 0 {
		t.Fatalf("%+v %s", n, code)
	}
	b.profile("ann", rpc.ProfileAsk{Do: rpc.ProfileEnd, Key: third.Key})
	look.Key = third.Key
	b.until("it has ended", func() bool {
		n, _ := b.profile("ann", look)
		return n.State == rpc.ProfileFailed
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
	run := func(key string, load rpc.ProfileLoad) rpc.ProfileNode {
		t.Helper()
		load.For = api.Duration(time.Second)
		n, code := b.profile("ann",
			rpc.ProfileAsk{Do: rpc.ProfileStart, Key: key, Instances: []string{web0}, Load: &load})
		if code != "" {
			t.Fatal(code)
		}
		b.until("it is over", func() bool {
			n, code = b.profile("ann", rpc.ProfileAsk{Do: rpc.ProfileLook, Key: key})
			return code == "" && n.State != rpc.ProfileRuns
		})
		return n
	}
	if n := run("12345678", rpc.ProfileLoad{Path: "/shop.Stock/Get", Body: []byte("id")}); n.State != rpc.ProfileDone ||
		n.Requests < 2 || n.Errors != 0 {
		t.Errorf("%+v", n)
	}
	if n := run("12345679", rpc.ProfileLoad{Path: "/shop.Stock/Get"}); n.State != rpc.ProfileFailed ||
		n.Requests != 0 || !strings.Contains(n.Problem, "gRPC status 3") {
		t.Errorf("a message that it does not take: %+v", n)
	}
	if n := run("12345670", rpc.ProfileLoad{Path: "/shop.Stock/Put"}); n.State != rpc.ProfileFailed ||
		!strings.Contains(n.Problem, "without a status of gRPC") {
		t.Errorf("what does not speak gRPC: %+v", n)
	}
	for what, load := range map[string]rpc.ProfileLoad{
		"no method":      {},
		"half a method":  {Path: "/shop.Stock"},
		"GET":            {Path: "/shop.Stock/Get", Method: "GET"},
		"something else": {Path: "/shop.Stock/Get", Type: "text/plain"},
	} {
		if _, code := b.profile("ann",
			rpc.ProfileAsk{Do: rpc.ProfileStart, Key: "key-of-" + what, Instances: []string{web0},
				Load: &load}); code != "no-call" {
			t.Errorf("%s: %q", what, code)
		}
	}
}
