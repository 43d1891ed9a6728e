package notify_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/hooks/hookstest"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/notify"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// hooked is a root with hooks, over a store and a key that outlive it.
type hooked struct {
	t     *testing.T
	store *bustest.MemStore
	key   *seal.Key
	b     backend.Backend
	*hookstest.Receiver
}

func newHooked(t *testing.T) *hooked {
	t.Helper()
	key, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &hooked{t: t, store: bustest.NewMemStore(), key: key, Receiver: hookstest.NewReceiver(t)}
	t.Cleanup(func() { h.b.HookKeeper.Close() })
	h.start()
	return h
}

// start is a restart of the process, the second time.
func (h *hooked) start() {
	h.t.Helper()
	if h.b.Core != nil {
		h.b.HookKeeper.Close()
	}
	h.b = roottest.NewBackend(h.t, h.store)
	h.b.Key, h.b.Clock = h.key, pki.OpenClock(h.t.TempDir())
	if err := notify.Open(h.t.Context(), h.b.Core, hookstest.Options(h.b.Clock.Now)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hooked) set(namespace, name string, spec wire.HookSpec) {
	h.t.Helper()
	ctx := access.With(h.t.Context(), access.Who{Name: "admin/ann", Admin: true})
	if _, err := h.b.SetHook(ctx, namespace, name, h.Request(spec)); err != nil {
		h.t.Fatal(err)
	}
}

// settled waits until all was delivered.
func (h *hooked) settled() {
	h.t.Helper()
	hookstest.Settle(h.t, h.b.HookKeeper)
}

// report is what a cluster says of an instance, with a history of so many steps.
func (h *hooked) report(cl *state.Cluster, now time.Time, steps ...wire.Transition) {
	h.t.Helper()
	last := steps[len(steps)-1]
	rep := wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "shop.web.0", App: "shop", Service: "web",
		State: last.To, Since: last.At, History: steps}}
	data, err := json.Marshal(rep)
	if err != nil {
		h.t.Fatal(err)
	}
	core.Do(h.b.Core, func(*state.Model) {
		if err := clusters.Take(h.b.Core, cl, wire.Change{Key: rep.ID, Value: data}, now); err != nil {
			h.t.Fatal(err)
		}
	})
}

func (h *hooked) cluster(name string) *state.Cluster {
	cl := state.NewCluster(state.ClusterRecord{V: wire.Version, Name: name}, time.Now())
	h.b.M.Clusters[name] = cl
	return cl
}

// What happens is told once, whether this process saw it or the one before did.
func TestHooksAreToldOnce(t *testing.T) {
	h := newHooked(t)
	ctx := t.Context()
	h.set("", "all", wire.HookSpec{On: []string{"*"}})
	if _, err := h.b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	if _, err := h.b.Scale(ctx, "shop", "web", 5); err != nil {
		t.Fatal(err)
	}
	h.Want("application.applied application/shop", "application.applied application/shop verge scale")

	if _, err := controller.Pass(ctx, h.b.Core, time.Now(), true); err != nil { // which makes its instances
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
		{To: wire.WorkerScheduled, At: at(5), Tier: "cluster/edge",
			Why: "moved to another worker, as its own is drained"},
		{To: wire.Running, At: at(6), Tier: "worker/w1", Why: "started"},
		{To: wire.Failed, At: at(7), Tier: "worker/w1", Why: "exited with 1"},
	}
	h.report(cl, now, steps[:2]...)
	h.Want("instance.running instance/shop.web.0 Running: started")
	cl.EverHeard = true
	h.report(cl, now, steps[:5]...)
	h.Want("instance.preempted instance/shop.web.0 Failed: displaced by", "instance.running")
	h.settled()

	// Another process hears all of it again, and what came while nobody was there.
	h.start()
	cl = h.cluster("edge")
	h.report(cl, now, steps...)
	h.Want("instance.moved instance/shop.web.0", "instance.running",
		"instance.failed instance/shop.web.0 Failed: exited with 1")

	core.Do(h.b.Core, func(*state.Model) {
		for phase, want := range map[string]string{wire.RolloutFailed: "rollout.failed rollout/edge/shop.web failed: no"} {
			data, err := json.Marshal(wire.RolloutReport{App: "shop", Service: "web", Revision: 2, Phase: phase,
				Why: "no", Ended: at(9)})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the same again is no news
				if err := clusters.Take(h.b.Core, cl, wire.Change{Key: wire.ReportedRollout + "shop.web", Value: data},
					now); err != nil {
					t.Fatal(err)
				}
			}
			h.Want(want)
		}
		for _, outcome := range []string{wire.JobFailed, wire.JobComplete} {
			r := wire.JobReport{App: "shop", Service: "db",
				Run: wire.JobRun{N: 2, Began: at(1), Ended: at(9), Outcome: outcome, Why: "it says so"}}
			if outcome == wire.JobComplete {
				r.Past, r.Run.N = []wire.JobRun{{N: 2, Began: at(1), Ended: at(9), Outcome: wire.JobFailed}}, 3
			}
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := clusters.Take(h.b.Core, cl, wire.Change{Key: wire.ReportedJob + "shop.db", Value: data},
					now); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	h.Want("job.failed job/edge/shop.db run 2 is failed: it says so",
		"job.succeeded job/edge/shop.db run 3 is complete")

	// A cluster that was lost before this process began is told to be back.
	h.b.EventRing.Note(now, event.ClusterLost, "edge", "away")
	h.Want("cluster.lost cluster/edge away")
	h.settled()
	h.start()
	h.b.EventRing.Note(now, event.ClusterLost, "edge", "away") // still
	h.b.EventRing.Note(now, event.ClusterBack, "edge", "reports again")
	h.b.EventRing.Note(now, event.ClusterBack, "edge", "reports again")
	h.Want("cluster.back cluster/edge")

	if err := h.b.Delete(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	h.Want("application.deleting application/shop")
	h.settled()
	// It goes while nobody can note it: the next process finds it gone.
	for _, key := range []string{state.KeyApp + "shop", state.KeyInstance + "shop.web.0"} {
		if _, err := h.store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	h.start()
	if m := <-h.News; m.Type != event.ApplicationDeleted.String() || m.Data.Namespace != "default" {
		t.Errorf("came %+v", m)
	}
	h.Want("instance.ended instance/shop.web.0")
	h.settled()
	h.start()
	h.b.EventRing.Note(now, event.ClusterLost, "edge", "away")
	h.Want("cluster.lost") // and nothing before it
}

func TestGatesAreAskedBeforeAnythingIsChanged(t *testing.T) {
	h := newHooked(t)
	ctx := access.With(t.Context(), access.Who{Name: "user/bob",
		Namespaces: map[string]access.Role{"default": access.Developer}})
	h.set("default", "gate", wire.HookSpec{Before: wire.Gates})
	h.Answer(http.StatusOK, `{"allow": false, "reason": "not today"}`)
	res, err := h.b.Apply(ctx, []byte(roottest.Shop), true)
	if err != nil || res.Change != "created" {
		t.Errorf("a rehearsal is asked about: %+v, %v", res, err)
	}
	if _, err := h.b.Apply(ctx, []byte(roottest.Shop), false); roottest.Code(err) != wire.CodeHookRefused ||
		!strings.Contains(err.Error(), "hook default/gate, asked before apply of application/shop: not today") {
		t.Errorf("%v", err)
	}
	if m := <-h.News; m.Data.By != "user/bob" || m.Data.Descriptor != roottest.Shop ||
		m.Data.Operation != wire.GateApply ||
		m.Data.Revision != 1 {
		t.Errorf("it was asked %+v", m)
	}
	if len(h.b.M.Apps) != 0 {
		t.Error("it was applied")
	}
	h.Answer(http.StatusOK, `{"allow": true}`)
	for range 2 { // the second changes nothing, and nobody is asked
		if _, err := h.b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.b.Scale(ctx, "shop", "web", 4); err != nil {
		t.Fatal(err)
	}
	h.Want("before.apply", "before.scale application/shop web is to have 4 replicas")
	h.Answer(http.StatusOK, `{"allow": false, "reason": "no"}`)
	for what, do := range map[string]func() error{
		"delete":  func() error { return h.b.Delete(ctx, "shop") },
		"scale":   func() error { _, err := h.b.Scale(ctx, "shop", "web", 5); return err },
		"undo":    func() error { _, err := h.b.Undo(ctx, "shop", apiv1.RolloutRequest{}); return err },
		"restart": func() error { _, err := h.b.Restart(ctx, "shop", apiv1.RestartRequest{}); return err },
	} {
		before := *h.b.M.Apps["shop"]
		if err := do(); roottest.Code(err) != wire.CodeHookRefused {
			t.Errorf("%s: %v", what, err)
		}
		h.Want("before." + what)
		if now := h.b.M.Apps["shop"]; now.Revision != before.Revision || !now.Deleting.IsZero() ||
			len(now.Restarts) != len(before.Restarts) {
			t.Errorf("%s has changed something", what)
		}
	}
	// What was agreed to is what is done.
	if err := (&hooks.Agreed{Asked: true, Revision: 3}).Still(apiv1.ApplyResult{Revision: 4,
		Change: "updated"}); roottest.Code(err) != "changed-meanwhile" {
		t.Errorf("%v", err)
	}
	if _, err := h.b.SetHook(ctx, "nowhere", "x", apiv1.HookRequest{}); roottest.Code(err) != "no-such-namespace" {
		t.Errorf("%v", err)
	}
	if got := h.b.HookKeeper.Of("default"); len(got) != 1 || got[0] != "gate" {
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
	ctx := access.With(t.Context(), access.Who{Name: "user/bob",
		Namespaces: map[string]access.Role{"default": access.Developer}})
	if _, err := h.b.Apply(ctx, []byte(roottest.Shop), false); err != nil {
		t.Fatal(err)
	}
	h.cluster("edge")
	h.b.M.Shares["edge.shop.web"] = &wire.Share{V: wire.Version, App: "shop", Service: "web",
		Spec: h.b.M.Apps["shop"].Spec.Services["web"]}
	gate := func(mine, other string) {
		t.Helper()
		if rollouts.Memory(h.b.M).Gates = h.b.HookKeeper.Gates(wire.GateWave); rollouts.WaveGate(h.b.M,
			"default") != mine || rollouts.WaveGate(h.b.M, "other") != other {
			t.Errorf("it is %v, want %q, and %q elsewhere", rollouts.Memory(h.b.M).Gates, mine, other)
		}
	}
	gate("", "")
	h.set("", "open", wire.HookSpec{Before: []string{wire.GateWave}, OnFailure: wire.HookOpen})
	gate(wire.HookOpen, wire.HookOpen)
	h.set("default", "closed", wire.HookSpec{Before: []string{wire.GateWave}})
	gate(wire.HookClosed, wire.HookOpen)
	q := wire.HookData{
		Operation: wire.GateWave, Namespace: "other", Application: "shop", Service: "web", Cluster: "liar",
		By: "nobody", Descriptor: "x", What: "wave 2 of 3", Revision: 4,
		Wave: &wire.HookWave{Number: 2, Of: 3, Clusters: 9, New: &wire.RolloutSide{Requests: 1, Failed: 7}},
	}
	if w, err := notify.AskWave(ctx, h.b.Core, "edge", q); err != nil || w != nil {
		t.Errorf("%v, %v", w, err)
	}
	for range 2 {
		m := <-h.News
		d := m.Data
		if m.Type != "before.wave" || d.Cluster != "edge" || d.Source != "cluster/edge" || d.Namespace != "default" ||
			d.By != "user/bob" || d.Descriptor != "" || d.Revision != 4 || d.Wave.Clusters != 1 ||
			d.Wave.New.Failed != 1 || d.Subject != "rollout/edge/shop.web" {
			t.Errorf("it was asked %+v", m)
		}
	}
	h.Answer(http.StatusOK, `{"allow": false, "reason": "too slow"}`)
	if _, err := notify.AskWave(ctx, h.b.Core, "edge", q); roottest.Code(err) != wire.CodeHookRefused ||
		!strings.Contains(err.Error(), "too slow") {
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
		if _, err := notify.AskWave(ctx, h.b.Core, "edge", d); roottest.Code(err) != "no-such-rollout" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
