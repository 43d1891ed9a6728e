package consult_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// oracle is a plugin whose answers are a function.
type oracle func(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error)

func (o oracle) Ask(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
	return o(ctx, q)
}

func (oracle) Close() {}

// advisedCore is a cluster with workers of one core each that asks o. In a synctest
// bubble.
func advisedCore(t *testing.T, o oracle, workers ...string) *core.Core {
	t.Helper()
	c := clustertest.NewCore(t, bustest.NewMemStore())
	for _, name := range workers {
		rec := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{
			V: wire.Version, Name: name, Runtimes: []string{"process"}, Arch: "amd64",
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
		}}
		w := state.NewWorker(rec, time.Now())
		w.EverHeard, w.Connected = true, true
		c.M.Workers[name] = w
		b, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.RecordStore.Put(t.Context(), state.KeyWorker+name, b); err != nil {
			t.Fatal(err)
		}
	}
	register(c, "sage", o, false)
	return c
}

func register(c *core.Core, name string, o oracle, joint bool) {
	consult.Memory(c.M).Plugins = map[string]*advisor.Advisor{name: {
		Asker: o, Config: plugin.Config{Name: name, Joint: joint}, Calls: map[string]uint64{},
		Took: obs.Histogram{Counts: make([]uint64, len(obs.Bounds)+1)},
	}}
	advisor.Memory(c.M).Plugins = map[string]bool{name: joint}
}

// delegate gives the cluster n instances of services that the plugin places.
func delegate(c *core.Core, t *testing.T, n int, change func(*api.Service), services ...string) {
	t.Helper()
	var all []wire.Change
	for _, svc := range services {
		spec := &api.Service{Runtime: "process", Command: []string{"x"}, Scheduler: "plugin", Plugin: "sage",
			Spread: "soft", Resources: api.Resources{CPU: 400, Memory: 1 << 20, Disk: 1 << 20}}
		if change != nil {
			change(spec)
		}
		b, err := json.Marshal(wire.Share{V: wire.Version, App: "app", Service: svc, Revision: 1, Min: n, Max: n,
			Ordinals: []wire.Span{{To: n}}, Spec: spec})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, wire.Change{Key: "share.app." + svc, Value: b})
	}
	if err := uplink.FromRoot(c).Take(t.Context(), true, all, wire.Rev{Inc: "root", N: c.M.Have().N + 1},
		nil); err != nil {
		t.Fatal(err)
	}
}

// passes makes a pass, and one more whenever an answer wakes the loop, until nothing
// is awaited any more or the time is over.
func passes(c *core.Core, t *testing.T, d time.Duration) {
	t.Helper()
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		heardAll(c)
		if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		tick := time.NewTimer(time.Second)
		select {
		case <-c.Wake:
		case <-tick.C:
		case <-end.C:
			tick.Stop()
			return
		}
		tick.Stop()
	}
}

func heardAll(c *core.Core) {
	core.Do(c, func(m *state.Model) {
		for _, w := range m.Workers {
			w.Heard = time.Now()
		}
	})
}

// where says on which worker each instance is, and how it was decided.
func where(c *core.Core, t *testing.T, id string) (worker string, d place.Decision) {
	t.Helper()
	return core.View2(c, func(m *state.Model) (worker string, d place.Decision) {
		i := m.Insts[id]
		if i == nil {
			t.Fatalf("there is no %s", id)
		}
		if e, err := c.RecordStore.Get(t.Context(), state.KeyWhy+id); err == nil {
			var r place.Record
			if err := json.Unmarshal(e.Value, &r); err != nil {
				t.Fatal(err)
			}
			d = r.Decision
		}
		return i.Worker, d
	})
}

func ranking(scores ...any) (out []plugin.Ranked) {
	for n := 0; n < len(scores); n += 2 {
		s := scores[n+1].(float64)
		out = append(out, plugin.Ranked{ID: scores[n].(string), Score: &s})
	}
	return out
}

func one(q plugin.Question, v plugin.Verdict) (map[string]plugin.Verdict, error) {
	return plugin.Check(q, plugin.Answer{Verdict: v})
}

// What a plugin ranks highest is chosen, what it rejects is not, and the record says
// both and is replayed.
func TestAPluginChooses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked++
			if q.Service.Name != "app.web" || len(q.Candidates) != 3 || q.DeadlineMs != 2000 ||
				q.Service.Demand["cpu"] != 400 || q.Candidates[0].Free["cpu"] != 1000 {
				t.Errorf("asked %+v", q)
			}
			return one(q, plugin.Verdict{Ranking: ranking("w1", 1.0, "w3", 7.5),
				Rejected: map[string]string{"w2": "too hot"}})
		}, "w1", "w2", "w3")
		delegate(c, t, 1, nil, "web")
		passes(c, t, 3*time.Second)
		w, d := where(c, t, "app.web.0")
		if w != "w3" || d.Chosen != "w3" || d.Ranked[0].Score != 7.5 || d.Request.Advice.Plugin != "sage" ||
			asked != 1 {
			t.Errorf("on %s, asked %d times: %+v", w, asked, d)
		}
		if len(d.Filtered) != 1 || d.Filtered[0].Example != "w2: rejected by plugin sage: too hot" {
			t.Errorf("filtered %v", d.Filtered)
		}
		d.TookNs = 0
		again, err := place.Replay(d)
		a, _ := json.Marshal(again)
		b, _ := json.Marshal(d)
		if err != nil || string(a) != string(b) {
			t.Errorf("%v\nreplayed %s\nrecord   %s", err, a, b)
		}
		if len(advisor.Memory(c.M).Inquiries) != 0 {
			t.Errorf("what is used is kept: %v", advisor.Memory(c.M).Inquiries)
		}
	})
}

// While it is asked the instance waits and says so; a pass never waits, and a plan
// asks nobody.
func TestAPluginIsWaitedForWithoutBlocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		asked := 0
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked++
			<-answer
			return one(q, plugin.Verdict{Ranking: ranking("w1", 1.0)})
		}, "w1")
		delegate(c, t, 1, nil, "web")
		for range 3 {
			if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if i := c.M.Insts["app.web.0"]; i.State != wire.ClusterScheduled ||
			i.Reason != "asked plugin sage for a worker" || asked != 1 {
			t.Errorf("%s: %s, asked %d times", i.State, i.Reason, asked)
		}
		if rehearsal.Rehearse(t.Context(), c.M.Clone(), nil, time.Now()); asked != 1 {
			t.Errorf("a plan asked: %d", asked)
		}
		close(answer)
		passes(c, t, time.Second)
		if w, _ := where(c, t, "app.web.0"); w != "w1" {
			t.Errorf("on %q", w)
		}
	})
}

// Whatever is wrong with a plugin, rom decides, and says why.
func TestAPluginThatFailsIsReplacedByRom(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  oracle
		problem string
	}{
		"an error": {func(context.Context, plugin.Question) (map[string]plugin.Verdict, error) {
			return nil, &plugin.Error{Class: plugin.Unreachable, Text: "it cannot be reached: refused"}
		}, "it cannot be reached"},
		"late": {func(ctx context.Context, _ plugin.Question) (map[string]plugin.Verdict, error) {
			<-ctx.Done()
			return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
		}, "did not answer in time"},
		"another service": {func(context.Context, plugin.Question) (map[string]plugin.Verdict, error) {
			return map[string]plugin.Verdict{"app.other": {}}, nil
		}, "did not answer for app.web"},
		"an unknown worker": {func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			return one(q, plugin.Verdict{Ranking: ranking("w9", 1.0)})
		}, `ranks "w9", which is no candidate`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := advisedCore(t, tc.answer, "w1", "w2")
				delegate(c, t, 2, nil, "web")
				passes(c, t, 5*time.Second)
				for n := range 2 {
					w, d := where(c, t, fmt.Sprintf("app.web.%d", n))
					if w == "" || d.Request.Advice == nil || !strings.Contains(d.Request.Advice.Problem, tc.problem) {
						t.Errorf("on %q: %+v", w, d.Request.Advice)
					}
					d.TookNs = 0
					if again, err := place.Replay(d); err != nil || again.Chosen != w {
						t.Errorf("replayed %v, %v", again.Chosen, err)
					}
				}
				said := 0
				for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
					if strings.Contains(e.What, "plugin sage: ") && strings.Contains(e.What, "rom decides") {
						said++
					}
				}
				if said != 2 {
					t.Errorf("%d events say so", said)
				}
			})
		})
	}
}

// An answer may be old: what it names is taken only if it has room when it comes.
func TestAnOldAnswerNeverOvercommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked++
			return one(q, plugin.Verdict{Ranking: ranking("w1", 1.0)}) // whoever asks, and whatever is there
		}, "w1", "w2")
		delegate(c, t, 5, nil, "web") // two fit on each
		passes(c, t, 5*time.Second)
		on := map[string]int{}
		for n := range 5 {
			w, _ := where(c, t, fmt.Sprintf("app.web.%d", n))
			on[w]++
		}
		if on["w1"] != 2 || on["w2"] != 2 || on[""] != 1 {
			t.Errorf("%v after %d questions", on, asked)
		}
		if i := c.M.Insts["app.web.4"]; i.State != wire.Requested || !strings.Contains(i.Reason, "full") &&
			!strings.Contains(i.Reason, "cpu") {
			t.Errorf("the last is %s: %s", i.State, i.Reason)
		}
		before := asked
		passes(c, t, 30*time.Second)
		if asked != before {
			t.Errorf("with nothing changed it was asked %d times more", asked-before)
		}
	})
}

// A plugin may refuse all; it is asked again when the workers change.
func TestAPluginMayRefuseAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked++
			v := plugin.Verdict{Rejected: map[string]string{}, Reason: "night shift"}
			for _, w := range q.Candidates {
				if w.Labels["day"] != "yes" {
					v.Rejected[w.ID] = "dark"
					continue
				}
				v.Ranking = append(v.Ranking, ranking(w.ID, 1.0)...)
			}
			return one(q, v)
		}, "w1", "w2")
		delegate(c, t, 1, nil, "web")
		passes(c, t, 20*time.Second)
		i := c.M.Insts["app.web.0"]
		if i.State != wire.Requested || i.Reason != "2 workers: 2 are rejected by plugin sage (dark); plugin "+
			"sage: night shift" || asked != 1 {
			t.Errorf("%s: %s; asked %d times", i.State, i.Reason, asked)
		}
		c.M.Workers["w2"].Info.Labels = map[string]string{"day": "yes"}
		passes(c, t, 5*time.Second)
		if w, _ := where(c, t, "app.web.0"); w != "w2" || asked != 2 {
			t.Errorf("on %q, asked %d times", w, asked)
		}
	})
}

// Services that wait together are one question for a plugin that decides jointly.
func TestAJointQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []plugin.Question
		joint := func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			got = append(got, q)
			services := map[string]*plugin.Verdict{}
			for n, s := range q.Services {
				v := &plugin.Verdict{Placements: map[string]string{}}
				for m, id := range s.Instances {
					v.Placements[id] = fmt.Sprintf("w%d", 1+(n+m)%2)
				}
				services[s.Name] = v
			}
			return plugin.Check(q, plugin.Answer{Services: services})
		}
		c := advisedCore(t, joint, "w1", "w2")
		register(c, "sage", joint, true)
		delegate(c, t, 2, nil, "a", "b")
		passes(c, t, 5*time.Second)
		if len(got) != 1 || len(got[0].Services) != 2 || got[0].Service != nil || len(got[0].Candidates) != 2 ||
			len(got[0].Services[1].Candidates) != 2 {
			t.Fatalf("asked %+v", got)
		}
		for id, want := range map[string]string{"app.a.0": "w1", "app.a.1": "w2", "app.b.0": "w2", "app.b.1": "w1"} {
			if w, d := where(c, t, id); w != want || d.Request.Advice.Worker != want {
				t.Errorf("%s is on %q, want %s", id, w, want)
			}
		}
	})
}

// One that hangs holds up nobody for longer than it may: what could not even be asked
// is placed by rom when the time is over.
func TestAHangingPluginIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		open, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			open += n
			most = max(most, open)
		}
		c := advisedCore(t, func(ctx context.Context, _ plugin.Question) (map[string]plugin.Verdict, error) {
			count(1)
			defer count(-1)
			<-ctx.Done()
			return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
		}, "w1", "w2", "w3", "w4")
		wait := api.Duration(500 * time.Millisecond)
		delegate(c, t, 1, func(s *api.Service) { s.ConvergenceTime = &wait }, "a", "b", "c", "d", "e", "f", "g", "h")
		begin := time.Now()
		passes(c, t, 3*time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most > advisor.MaxCalls {
			t.Errorf("%d questions were open at a time", most)
		}
		for _, svc := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			i := c.M.Insts["app."+svc+".0"]
			if i.Worker == "" || i.Since.Sub(begin) > 2*time.Second {
				t.Errorf("%s is on %q after %s", svc, i.Worker, i.Since.Sub(begin))
			}
		}
	})
}

// What was asked is of the process: the next one asks again, and the answer to the
// one before is nobody's.
func TestARestartAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := advisedCore(t, func(ctx context.Context, _ plugin.Question) (map[string]plugin.Verdict, error) {
			<-ctx.Done()
			return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
		}, "w1", "w2")
		delegate(c, t, 1, nil, "web")
		if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		consult.StopAsking(c)
		next, err := clustertest.Init(t.Context(),
			&core.Core{ClusterName: "edge", Logger: c.Logger, EventRing: c.EventRing, RecordStore: c.RecordStore,
				Local: c.Local, Up: c.Up}, true,
			time.Now())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { consult.StopAsking(next) })
		for _, w := range next.M.Workers {
			w.EverHeard, w.Connected = true, true
		}
		register(next, "sage", func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			return one(q, plugin.Verdict{Ranking: ranking("w2", 1.0)})
		}, false)
		passes(next, t, 3*time.Second)
		if w, d := where(next, t, "app.web.0"); w != "w2" || d.Request.Advice.Problem != "" {
			t.Errorf("on %q", w)
		}
	})
}

// A plugin that the cluster does not have is named, with those that it has.
func TestAnUnknownPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := advisedCore(t, nil, "w1")
		delegate(c, t, 1, func(s *api.Service) { s.Plugin = "nobody" }, "web")
		passes(c, t, 2*time.Second)
		if i := c.M.Insts["app.web.0"]; i.State != wire.Requested ||
			i.Reason != "cluster edge has no plugin nobody (has sage)" {
			t.Errorf("%s: %s", i.State, i.Reason)
		}
		if a := report.Aggregate(c.M, wire.Rev{}, nil); len(a.Plugins) != 1 || a.Plugins[0] != "sage" {
			t.Errorf("the root is told %v", a.Plugins)
		}
	})
}

// A cluster may place by a plugin whatever names no scheduler; what names one has that.
func TestAPluginAsDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := map[string]int{}
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			asked[q.Service.Name]++
			return one(q, plugin.Verdict{Ranking: ranking("w2", 1.0)})
		}, "w1", "w2")
		c.M.Scheduler = "plugin:sage"
		for scheduler, services := range map[string][]string{"": {"bare"}, "rom": {"other"}} {
			delegate(c, t, 1, func(s *api.Service) { s.Scheduler, s.Plugin = scheduler, "" }, services...)
			passes(c, t, 2*time.Second)
			id := "app." + services[0] + ".0"
			w, d := where(c, t, id)
			if (d.Request.Scheduler == "plugin") != (scheduler == "") ||
				(w == "w2" && d.Request.Plugin == "sage") != (scheduler == "") && scheduler == "" {
				t.Errorf("%s is on %q: %+v", id, w, d.Request)
			}
		}
		if len(asked) != 1 || asked["app.bare"] != 1 {
			t.Errorf("asked about %v", asked)
		}
		c.M.Scheduler = "plugin:gone"
		delegate(c, t, 1, func(s *api.Service) { s.Scheduler, s.Plugin = "", "" }, "late")
		passes(c, t, 2*time.Second)
		if i := c.M.Insts["app.late.0"]; i.Reason != "cluster edge has no plugin gone (has sage)" {
			t.Errorf("%s: %s", i.State, i.Reason)
		}
	})
}
