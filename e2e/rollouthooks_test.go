package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
)

// receiver takes what hooks send, and answers questions.
type receiver struct {
	*httptest.Server
	mu    sync.Mutex
	heard []apiv1.HookMessage
	// says is the answer to a question; "" is none.
	says func(m apiv1.HookMessage) string
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.answer("")
	r.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		var m apiv1.HookMessage
		if err := json.NewDecoder(q.Body).Decode(&m); err != nil {
			t.Errorf("a hook was sent what cannot be read: %v", err)
		}
		r.mu.Lock()
		r.heard = append(r.heard, m)
		says := r.says(m)
		r.mu.Unlock()
		if strings.HasPrefix(m.Type, "before.") && says == "" {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(rw, says)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answer(says string) {
	r.answerBy(func(apiv1.HookMessage) string { return says })
}

func (r *receiver) answerBy(says func(m apiv1.HookMessage) string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.says = says
}

// of are the messages of a type that have come, and forgets all.
func (r *receiver) of(kind string) (out []apiv1.HookMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.heard {
		if m.Type == kind {
			out = append(out, m)
		}
	}
	r.heard = nil
	return out
}

func (r *receiver) has(kind, what string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.heard {
		if m.Type == kind && strings.Contains(m.Data.What, what) {
			return nil
		}
	}
	return fmt.Errorf("no %s %q among %+v", kind, what, r.heard)
}

// TestRolloutHooks: hooks of the root and of a cluster are asked before each wave of a
// rollout, and heeded, also while the root is away; and those of the cluster are told and asked
// what the root's cannot be.
func TestRolloutHooks(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	edge := w.cluster["edge"]
	for _, x := range []*tier{w.root, edge} {
		x.args = append(x.args, "--hooks-allow", "127.0.0.0/8,::1/128")
		x.kill()
		x.start()
		x.answers()
	}
	w.allReady()
	secret := w.file("hook-", "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n")
	hub, site := newReceiver(t), newReceiver(t)
	hub.answer(`{"allow": true}`)
	site.answer(`{"allow": true}`)
	set := func(at *tier, name, url string, more ...string) {
		t.Helper()
		at.ok(append([]string{"hook", "set", name, "-A", "--url", url, "--plain-http", "--secret-file", secret}, more...)...)
	}
	w.root.apply(rolled("1", "testprogram", ""))
	set(w.root, "waves", hub.URL, "--before", "wave")
	set(edge, "site", site.URL, "--on", "*", "--before", "wave,scale")
	watched := w.neverFewer(edge)
	defer watched()
	status := func(want ...string) func() error {
		return func() error {
			out := verge(t, edge.contextFile(), "rollout", "status", "rolled")
			for _, word := range want {
				if !strings.Contains(out.out, word) {
					return fmt.Errorf("%s%s", out.out, out.err)
				}
			}
			return nil
		}
	}

	// All agree: three waves of one instance each, and both are asked about each of them.
	w.root.apply(rolled("2", "testprogram", ""))
	for _, r := range []*receiver{hub, site} {
		asked := r.of("before.wave")
		if len(asked) != 3 {
			t.Fatalf("asked %d times: %+v", len(asked), asked)
		}
		for n, m := range asked {
			if v := m.Data.Wave; v.Number != n+1 || v.Of != 3 || v.From != 1 || v.Updated != n || m.Data.Revision != 2 || m.Data.Cluster != "edge" {
				t.Errorf("asked %+v of %+v", v, m.Data)
			}
		}
	}

	// The root's refuses the second wave: it stops with what it has, and goes on when resumed.
	hub.answerBy(func(m apiv1.HookMessage) string {
		return fmt.Sprintf(`{"allow": %v, "reason": "the dashboards are red"}`, m.Data.Wave.Number < 2)
	})
	file := w.file("app-", rolled("3", "testprogram", ""))
	if r := verge(t, w.root.contextFile(), "apply", file, "--timeout", "60s"); r.code != 2 || !strings.Contains(r.err, "the dashboards are red") {
		t.Fatalf("apply: code %d\n%s%s", r.code, r.out, r.err)
	}
	eventually(t, 10*time.Second, "the site's hook is told", func() error { return site.has(event.RolloutFailed.String(), "the dashboards are red") })
	hub.answer(`{"allow": true}`)
	w.root.ok("rollout", "resume", "rolled")
	w.root.ok("rollout", "status", "rolled", "--wait", "--timeout", "60s")

	// The root is away in the middle: its hook fails closed, so the rollout waits.
	hub.answer("")
	verge(t, w.root.contextFile(), "apply", w.file("app-", rolled("4", "testprogram", "")), "--no-wait")
	eventually(t, 30*time.Second, "it waits for the hook", status("wave 1 of 3 waits for the word of a hook", "503"))
	w.root.kill()
	eventually(t, 60*time.Second, "it waits for the root", status("wave 1 of 3 waits for the word of a hook", "the root, whose hooks are to be asked, does not answer"))
	// Meanwhile the site is its own: its hook has the word about what is changed here.
	site.answer(`{"allow": false, "reason": "the shop is open"}`)
	refused(t, "a change at the site", verge(t, edge.contextFile(), "scale", "rolled.front", "--replicas", "4"), "the shop is open")
	site.answer(`{"allow": true}`)
	edge.ok("scale", "rolled.front", "--replicas", "4", "--no-wait")
	eventually(t, 10*time.Second, "the site's hook is told of the change", func() error { return site.has(event.LocalChanged.String(), "scaled 3 → 4") })
	edge.ok("local", "drop", "rolled")
	hub.answer(`{"allow": true}`)
	w.root.start()
	eventually(t, 90*time.Second, "it goes on when the root is back", status("done"))

	// One that fails open is gone on without.
	w.root.answers()
	set(w.root, "waves", hub.URL, "--before", "wave", "--on-failure", "open")
	hub.answer("")
	w.root.apply(rolled("5", "testprogram", ""))
	if err := status("done", "wave 3: hook waves was asked and did not answer")(); err != nil {
		t.Error(err)
	}
	if fewest, _ := watched(); fewest < 3 {
		t.Errorf("%d were ready, 3 are promised", fewest)
	}
	w.worker["edge-1"].kill()
	eventually(t, 60*time.Second, "the site's hook is told of its worker", func() error { return site.has(event.WorkerLost.String(), "suspect") })
}
