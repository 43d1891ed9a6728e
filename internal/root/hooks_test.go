package root

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// hooked is a root with hooks, over a store and a key that outlive it.
type hooked struct {
	t     *testing.T
	store *bus.MemStore
	key   *seal.Key
	b     backend
	news  chan wire.HookMessage
	url   string
	says  string // to questions
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	key, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{t: t, store: bus.NewMemStore(), key: key, news: make(chan wire.HookMessage, 100), says: `{"allow": true}`}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m wire.HookMessage
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			m.Type = err.Error()
		}
		if strings.HasPrefix(m.Type, "before.") {
			_, _ = io.WriteString(w, h.says)
		}
		h.news <- m
	}))
	h.url = s.URL
	t.Cleanup(s.Close)
	t.Cleanup(func() { h.b.hooks.Close() })
	h.start()
	return h
}

// start is a restart of the process, the second time.
func (h *hooked) start() {
	h.t.Helper()
	if h.b.Root != nil {
		h.b.hooks.Close()
	}
	h.b = newTestBackend(h.t, h.store)
	h.b.key, h.b.clock = h.key, pki.OpenClock(h.t.TempDir())
	h.b.opts.HooksAllow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if err := h.b.openHooks(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hooked) set(namespace, name string, spec wire.HookSpec) {
	h.t.Helper()
	spec.URL, spec.Plain = h.url, true
	ctx := access.With(h.t.Context(), access.Who{Name: "admin/ann", Admin: true})
	if _, err := h.b.SetHook(ctx, namespace, name, wire.HookRequest{HookSpec: spec, Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}); err != nil {
		h.t.Fatal(err)
	}
}

// want are the next messages, in order.
func (h *hooked) want(words ...string) {
	h.t.Helper()
	for _, w := range words {
		select {
		case m := <-h.news:
			if got := fmt.Sprintf("%s %s %s", m.Type, m.Data.Subject, m.Data.What); !strings.HasPrefix(got, w) {
				h.t.Errorf("came %q, want %q", got, w)
			}
		case <-time.After(time.Minute):
			h.t.Fatalf("%q has not come", w)
		}
	}
}

// settled waits until all was delivered.
func (h *hooked) settled(name string) {
	h.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		if time.Now().After(deadline) {
			h.t.Fatal("something still waits for hook " + name)
		}
		list, err := h.b.Hooks(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		for _, v := range list {
			if v.Name == name && v.Waiting == 0 {
				return
			}
		}
	}
}

// report is what a cluster says of an instance, with a history of so many steps.
func (h *hooked) report(cl *cluster, now time.Time, steps ...wire.Transition) {
	h.t.Helper()
	last := steps[len(steps)-1]
	rep := wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "shop.web.0", App: "shop", Service: "web", State: last.To, Since: last.At, History: steps}}
	data, err := json.Marshal(rep)
	if err != nil {
		h.t.Fatal(err)
	}
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if err := h.b.take(cl, wire.Change{Key: rep.ID, Value: data}, now); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hooked) cluster(name string) *cluster {
	cl := newCluster(clusterRecord{V: wire.Version, Name: name}, time.Now())
	h.b.m.clusters[name] = cl
	return cl
}

// What happens is told once, whether this process saw it or the one before did.
func TestHooksAreToldOnce(t *testing.T) {
	h := newHooked(t)
	ctx := t.Context()
	h.set("", "all", wire.HookSpec{On: []string{"*"}})
	if _, err := h.b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := h.b.Scale(ctx, "shop", "web", 5); err != nil {
		t.Fatal(err)
	}
	h.want("application.applied application/shop", "application.applied application/shop verge scale")

	if _, err := h.b.pass(ctx, time.Now(), true); err != nil { // which makes its instances
		t.Fatal(err)
	}
	cl := h.cluster("edge")
	now := time.Now()
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	steps := []wire.Transition{
		{To: wire.ClusterScheduled, At: at(0), Tier: "root"},
		{To: wire.Running, At: at(1), Tier: "worker/w1", Why: "started"},
		{To: wire.Failed, At: at(2), Tier: "cluster/edge", Why: "displaced by shop.db.0"},
		{To: wire.WorkerScheduled, At: at(3), Tier: "cluster/edge", Why: "placed on a worker"},
		{To: wire.Running, At: at(4), Tier: "worker/w2", Why: "started"},
		{To: wire.WorkerScheduled, At: at(5), Tier: "cluster/edge", Why: "moved to another worker, as its own is drained"},
		{To: wire.Running, At: at(6), Tier: "worker/w1", Why: "started"},
		{To: wire.Failed, At: at(7), Tier: "worker/w1", Why: "exited with 1"},
	}
	h.report(cl, now, steps[:2]...)
	h.want("instance.running instance/shop.web.0 Running: started")
	cl.everHeard = true
	h.report(cl, now, steps[:5]...)
	h.want("instance.preempted instance/shop.web.0 Failed: displaced by", "instance.running")
	h.settled("all")

	// Another process hears all of it again, and what came while nobody was there.
	h.start()
	cl = h.cluster("edge")
	h.report(cl, now, steps...)
	h.want("instance.moved instance/shop.web.0", "instance.running", "instance.failed instance/shop.web.0 Failed: exited with 1")

	h.b.mu.Lock()
	for phase, want := range map[string]string{wire.RolloutFailed: "rollout.failed rollout/edge/shop.web failed: no"} {
		data, err := json.Marshal(wire.RolloutReport{App: "shop", Service: "web", Revision: 2, Phase: phase, Why: "no", Ended: at(9)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same again is no news
			if err := h.b.take(cl, wire.Change{Key: wire.ReportedRollout + "shop.web", Value: data}, now); err != nil {
				t.Fatal(err)
			}
		}
		h.want(want)
	}
	for _, outcome := range []string{wire.JobFailed, wire.JobComplete} {
		r := wire.JobReport{App: "shop", Service: "db", Run: wire.JobRun{N: 2, Began: at(1), Ended: at(9), Outcome: outcome, Why: "it says so"}}
		if outcome == wire.JobComplete {
			r.Past, r.Run.N = []wire.JobRun{{N: 2, Began: at(1), Ended: at(9), Outcome: wire.JobFailed}}, 3
		}
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := h.b.take(cl, wire.Change{Key: wire.ReportedJob + "shop.db", Value: data}, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.b.mu.Unlock()
	h.want("job.failed job/edge/shop.db run 2 is failed: it says so", "job.succeeded job/edge/shop.db run 3 is complete")

	// A cluster that was lost before this process began is told to be back.
	h.b.tellCluster(wire.HookClusterLost, "edge", hooks.NodeLost, "away", now)
	h.want("cluster.lost cluster/edge away")
	h.settled("all")
	h.start()
	h.b.tellCluster(wire.HookClusterLost, "edge", hooks.NodeLost, "away", now) // still
	h.b.tellCluster(wire.HookClusterBack, "edge", hooks.NodeBack, "heard of again", now)
	h.b.tellCluster(wire.HookClusterBack, "edge", hooks.NodeBack, "heard of again", now)
	h.want("cluster.back cluster/edge")

	if err := h.b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	h.want("application.deleting application/shop")
	h.settled("all")
	// It goes while nobody can note it: the next process finds it gone.
	for _, key := range []string{keyApp + "shop", keyInstance + "shop.web.0"} {
		if _, err := h.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if m := <-h.news; m.Type != wire.HookApplicationDeleted || m.Data.Namespace != "default" {
		t.Errorf("came %+v", m)
	}
	h.want("instance.ended instance/shop.web.0")
	h.settled("all")
	h.start()
	h.b.tellCluster(wire.HookClusterLost, "edge", hooks.NodeLost, "away", now)
	h.want("cluster.lost") // and nothing before it
}

func TestGatesAreAskedBeforeAnythingIsChanged(t *testing.T) {
	h := newHooked(t)
	ctx := access.With(t.Context(), access.Who{Name: "user/bob", Namespaces: map[string]access.Role{"default": access.Developer}})
	h.set("default", "gate", wire.HookSpec{Before: wire.Gates})
	h.says = `{"allow": false, "reason": "not today"}`
	res, err := h.b.Apply(ctx, []byte(shop), true)
	if err != nil || res.Change != "created" {
		t.Errorf("a rehearsal is asked about: %+v, %v", res, err)
	}
	if _, err := h.b.Apply(ctx, []byte(shop), false); code(err) != wire.CodeHookRefused || !strings.Contains(err.Error(), "hook default/gate, asked before apply of application/shop: not today") {
		t.Errorf("%v", err)
	}
	if m := <-h.news; m.Data.By != "user/bob" || m.Data.Descriptor != shop || m.Data.Operation != wire.GateApply || m.Data.Revision != 1 {
		t.Errorf("it was asked %+v", m)
	}
	if len(h.b.m.apps) != 0 {
		t.Error("it was applied")
	}
	h.says = `{"allow": true}`
	for range 2 { // the second changes nothing, and nobody is asked
		if _, err := h.b.Apply(ctx, []byte(shop), false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.b.Scale(ctx, "shop", "web", 4); err != nil {
		t.Fatal(err)
	}
	h.want("before.apply", "before.scale application/shop web is to have 4 replicas")
	h.says = `{"allow": false, "reason": "no"}`
	for what, do := range map[string]func() error{
		"delete":  func() error { return h.b.Delete(ctx, "shop") },
		"scale":   func() error { _, err := h.b.Scale(ctx, "shop", "web", 5); return err },
		"undo":    func() error { _, err := h.b.Undo(ctx, "shop", wire.RolloutRequest{}); return err },
		"restart": func() error { _, err := h.b.Restart(ctx, "shop", wire.RestartRequest{}); return err },
	} {
		before := *h.b.m.apps["shop"]
		if err := do(); code(err) != wire.CodeHookRefused {
			t.Errorf("%s: %v", what, err)
		}
		h.want("before." + what)
		if now := h.b.m.apps["shop"]; now.Revision != before.Revision || !now.Deleting.IsZero() || len(now.Restarts) != len(before.Restarts) {
			t.Errorf("%s has changed something", what)
		}
	}
	// What was agreed to is what is done.
	if err := (&hooks.Agreed{Asked: true, Revision: 3}).Still(wire.ApplyResult{Revision: 4, Change: "updated"}); code(err) != "changed-meanwhile" {
		t.Errorf("%v", err)
	}
	if _, err := h.b.SetHook(ctx, "nowhere", "x", wire.HookRequest{}); code(err) != "no-such-namespace" {
		t.Errorf("%v", err)
	}
	if got := h.b.hooks.Of("default"); len(got) != 1 || got[0] != "gate" {
		t.Errorf("%v", got)
	}
	var nobody *hooks.Keeper
	if w, err := nobody.Ask(ctx, wire.HookData{Operation: wire.GateApply}); err != nil || w != nil {
		t.Errorf("%v, %v", w, err)
	}
}

// Clusters are told whether hooks want to be asked before waves of rollouts, and what they ask
// is answered by those hooks: with what the root knows, whatever the cluster says of it.
func TestWavesOfRolloutsAreAskedAbout(t *testing.T) {
	h := newHooked(t)
	ctx := access.With(t.Context(), access.Who{Name: "user/bob", Namespaces: map[string]access.Role{"default": access.Developer}})
	if _, err := h.b.Apply(ctx, []byte(shop), false); err != nil {
		t.Fatal(err)
	}
	h.cluster("edge")
	h.b.m.shares["edge.shop.web"] = &wire.Share{V: wire.Version, App: "shop", Service: "web", Spec: h.b.m.apps["shop"].Spec.Services["web"]}
	gate := func(mine, other string) {
		t.Helper()
		if h.b.m.gates = h.b.hooks.Gates(wire.GateWave); h.b.m.waveGate("default") != mine || h.b.m.waveGate("other") != other {
			t.Errorf("it is %v, want %q, and %q elsewhere", h.b.m.gates, mine, other)
		}
	}
	gate("", "")
	h.set("", "open", wire.HookSpec{Before: []string{wire.GateWave}, OnFailure: wire.HookOpen})
	gate(wire.HookOpen, wire.HookOpen)
	h.set("default", "closed", wire.HookSpec{Before: []string{wire.GateWave}})
	gate(wire.HookClosed, wire.HookOpen)
	q := wire.HookData{
		Operation: wire.GateWave, Namespace: "other", Application: "shop", Service: "web", Cluster: "liar", By: "nobody", Descriptor: "x", What: "wave 2 of 3", Revision: 4,
		Wave: &wire.HookWave{Number: 2, Of: 3, Clusters: 9, New: &wire.RolloutSide{Requests: 1, Failed: 7}},
	}
	if w, err := h.b.askWave(ctx, "edge", q); err != nil || w != nil {
		t.Errorf("%v, %v", w, err)
	}
	for range 2 {
		m := <-h.news
		d := m.Data
		if m.Type != "before.wave" || d.Cluster != "edge" || d.Source != "cluster/edge" || d.Namespace != "default" || d.By != "user/bob" || d.Descriptor != "" || d.Revision != 4 || d.Wave.Clusters != 1 || d.Wave.New.Failed != 1 || d.Subject != "rollout/edge/shop.web" {
			t.Errorf("it was asked %+v", m)
		}
	}
	h.says = `{"allow": false, "reason": "too slow"}`
	if _, err := h.b.askWave(ctx, "edge", q); code(err) != wire.CodeHookRefused || !strings.Contains(err.Error(), "too slow") {
		t.Errorf("%v", err)
	}
	for name, bad := range map[string]func(*wire.HookData){
		"another operation":                func(d *wire.HookData) { d.Operation = wire.GateApply },
		"no wave":                          func(d *wire.HookData) { d.Wave = nil },
		"a service that it does not have":  func(d *wire.HookData) { d.Service = "db" },
		"an application that is not there": func(d *wire.HookData) { d.Application = "none" },
	} {
		d := q
		bad(&d)
		if _, err := h.b.askWave(ctx, "edge", d); code(err) != "no-such-rollout" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
