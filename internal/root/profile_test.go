package root

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
)

// profiled is a root with a service in clusters that say what they are told to.
type profiled struct {
	backend
	t     *testing.T
	mu    sync.Mutex // guards below
	says  map[string]any
	asked []string
}

// newProfiled has the service app.web in each of the clusters; says is a
// *wire.ProfileReport or a *wire.Problem for each of them.
func newProfiled(t *testing.T, says map[string]any) *profiled {
	t.Helper()
	names := []string{"east", "north", "west"}
	s := newSim(t, names...)
	p := &profiled{t: t, says: says}
	s.m.apps["app"] = &wire.Application{Spec: &api.Application{Application: "app", Services: map[string]*api.Service{"web": {}}}}
	conns := map[string]bus.Conn{}
	for _, name := range names {
		s.m.clusters[name].agg = &wire.Aggregate{Details: true}
		if says[name] != nil {
			s.m.shares[name+".app.web"] = &wire.Share{App: "app", Service: "web"}
		}
		conn := bus.NewMem().Conn(name, bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
		t.Cleanup(conn.Close)
		conns[name] = conn
		stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) { p.answer(name, m) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	p.backend = backend{&Root{core: &core{m: s.m, link: func(name string) (bus.Conn, error) { return conns[name], nil }}}}
	return p
}

func (p *profiled) answer(name string, m bus.Msg) {
	var q wire.Ask
	if err := json.Unmarshal(m.Data, &q); err != nil || q.Exec == nil || q.Exec.Profile == nil {
		p.t.Errorf("cluster %s was asked %s", name, m.Data)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.Exec.Profile.Do+" "+name)
	a := wire.Answer{V: wire.Version}
	switch x := p.says[name].(type) {
	case *wire.Problem:
		a.Error, a.Problem = x.Title, x
	case *wire.ProfileReport:
		var err error
		if a.Data, err = json.Marshal(wire.ExecAnswer{Profile: x}); err != nil {
			p.t.Error(err)
		}
	}
	data, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func (p *profiled) step(do string) (*wire.ProfileReport, error) {
	q := wire.ExecAsk{Do: wire.ExecDoProfile, Profile: &wire.ProfileAsk{Do: do, App: "app", Service: "web", Key: "12345678"}}
	if do == wire.ProfileStart {
		q.Profile.Load = &wire.ProfileLoad{}
	}
	a, err := p.Exec(access.With(p.t.Context(), access.Who{Name: "user/ann", Admin: true}), q)
	return a.Profile, err
}

func report(state, why string, took time.Duration, workers ...string) *wire.ProfileReport {
	r := &wire.ProfileReport{V: wire.Version, State: state, Why: why, Took: api.Duration(took), Whole: api.Duration(2 * took)}
	for i, w := range workers {
		r.Nodes = append(r.Nodes, wire.ProfileNode{Worker: w, Instances: 1, State: state, Rate: float64(100 * (i + 1))})
	}
	return r
}

// What several clusters say is one report: as far as the slowest, failed where one has
// failed, and each worker with its cluster.
func TestProfileOfSeveralClusters(t *testing.T) {
	away := wire.Problemf(409, "nothing-runs", "", "nothing is ready", "cluster west has no instance of app.web that is ready")
	for name, c := range map[string]struct {
		says             map[string]any
		state, why       string
		took             time.Duration
		kept             bool
		workers, trouble []string
	}{
		"both are done": {
			says:  map[string]any{"east": report(wire.ProfileDone, "", 60*time.Second, "w1", "w2"), "west": report(wire.ProfileDone, "", 61*time.Second, "w1")},
			state: wire.ProfileDone, took: 61 * time.Second, workers: []string{"east/w1", "east/w2", "west/w1"},
		},
		"one goes on": {
			says:  map[string]any{"east": report(wire.ProfileRuns, "", 30*time.Second, "w1"), "north": report(wire.ProfileDone, "", 60*time.Second, "w1")},
			state: wire.ProfileRuns, took: 60 * time.Second, workers: []string{"east/w1", "north/w1"},
		},
		"one has failed": {
			says:  map[string]any{"east": report(wire.ProfileRuns, "", 30*time.Second, "w1"), "west": report(wire.ProfileFailed, "half of them failed", 20*time.Second, "w1")},
			state: wire.ProfileFailed, why: "cluster west, half of them failed", took: 30 * time.Second, workers: []string{"east/w1", "west/w1"},
		},
		"two have failed": {
			says:  map[string]any{"east": report(wire.ProfileFailed, "a", time.Second), "west": report(wire.ProfileFailed, "b", time.Second)},
			state: wire.ProfileFailed, why: "cluster east, a; cluster west, b", took: time.Second,
		},
		"one has nothing ready": {
			says:  map[string]any{"east": report(wire.ProfileDone, "", 60*time.Second, "w1"), "west": away},
			state: wire.ProfileDone, took: 60 * time.Second, workers: []string{"east/w1"}, trouble: []string{"west: " + away.Detail},
		},
		"one has stored it": {
			says: map[string]any{"east": &wire.ProfileReport{V: wire.Version, Stored: true}, "west": &wire.ProfileReport{V: wire.Version}},
			kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProfiled(t, c.says)
			r, err := p.step(wire.ProfileLook)
			if err != nil {
				t.Fatal(err)
			}
			var workers, trouble []string
			for _, n := range r.Nodes {
				if n.Problem != "" {
					trouble = append(trouble, n.Cluster+": "+n.Problem)
				} else {
					workers = append(workers, n.Cluster+"/"+n.Worker)
				}
			}
			if r.App != "app" || r.Service != "web" || r.State != c.state || r.Why != c.why || r.Took.Std() != c.took || r.Whole.Std() != 2*c.took || r.Stored != c.kept ||
				!reflect.DeepEqual(workers, c.workers) || !reflect.DeepEqual(trouble, c.trouble) {
				t.Errorf("%+v; workers %v, trouble %v", r, workers, trouble)
			}
		})
	}
}

// All clusters begin or none does: who refuses lets those end that have begun. One that
// cannot be asked is no refusal, unless it is the only one.
func TestProfileBeginsEverywhereOrNowhere(t *testing.T) {
	busy := wire.Problemf(429, "too-many-profiles", "wait", "too much is being profiled", "4 services are")
	p := newProfiled(t, map[string]any{"east": report(wire.ProfileRuns, "", 0, "w1"), "west": busy})
	_, err := p.step(wire.ProfileStart)
	if is := new(wire.Problem); !errors.As(err, &is) || is.Code != "too-many-profiles" {
		t.Errorf("refused: %v", err)
	}
	slices.Sort(p.asked)
	if want := []string{"end east", "end west", "start east", "start west"}; !slices.Equal(p.asked, want) {
		t.Errorf("asked %v, want %v", p.asked, want)
	}
	none := wire.Problemf(409, "nothing-runs", "", "nothing is ready", "x")
	if r, err := newProfiled(t, map[string]any{"east": report(wire.ProfileRuns, "", 0, "w1"), "west": none}).step(wire.ProfileStart); err != nil || r.State != wire.ProfileRuns {
		t.Errorf("one that has nothing ready: %+v, %v", r, err)
	}
	for what, c := range map[string]struct {
		says map[string]any
		want string
	}{
		"the only one has nothing": {map[string]any{"west": none}, "nothing-runs"},
		"in no cluster":            {nil, "nothing-runs"},
		"forgotten everywhere":     {map[string]any{"east": wire.Problemf(404, "not-profiled", "", "x", "y")}, "not-profiled"},
	} {
		_, err := newProfiled(t, c.says).step(wire.ProfileLook)
		if is := new(wire.Problem); !errors.As(err, &is) || is.Code != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
