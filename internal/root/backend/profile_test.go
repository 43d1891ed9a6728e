package backend_test

import (
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// profiled is a root with a service in clusters that say what they are told to.
type profiled struct {
	backend.Backend
	t     *testing.T
	mu    sync.Mutex // guards below
	says  map[string]any
	asked []string
}

// newProfiled has the service app.web in each of the clusters; says is a
// *rpc.ProfileReport or a *wire.Problem for each of them.
func newProfiled(t *testing.T, says map[string]any) *profiled {
	t.Helper()
	names := []string{"east", "north", "west"}
	s := roottest.NewSim(t, names...)
	p := &profiled{t: t, says: says}
	s.Model.Apps["app"] = &record.Application{Spec: &api.Application{Application: "app",
		Services: map[string]*api.Service{"web": {}}}}
	conns := map[string]bus.Conn{}
	for _, name := range names {
		s.Model.Clusters[name].Aggregate = &wire.Aggregate{Details: true}
		if says[name] != nil {
			s.Model.Shares[name+".app.web"] = &wire.Share{App: "app", Service: "web"}
		}
		conn := bustest.NewMem().Conn(name, bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
		t.Cleanup(conn.Close)
		conns[name] = conn
		exchangetest.OnAsk(t, conn, exchange.ClusterSubjects(),
			func(q rpc.Ask, sent string) (any, *wire.Problem) { return p.answer(name, q, sent) })
	}
	p.Backend = backend.Backend{Core: &core.Core{M: s.Model,
		LinkTo: func(name string) (bus.Conn, error) { return conns[name], nil }}}
	return p
}

func (p *profiled) answer(name string, q rpc.Ask, sent string) (any, *wire.Problem) {
	if q.Exec == nil || q.Exec.Profile == nil {
		p.t.Errorf("cluster %s was asked %s", name, sent)
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, q.Exec.Profile.Do+" "+name)
	switch x := p.says[name].(type) {
	case *wire.Problem:
		return nil, x
	case *rpc.ProfileReport:
		return rpc.ExecAnswer{Profile: x}, nil
	}
	return nil, nil
}

func (p *profiled) step(do string) (*rpc.ProfileReport, error) {
	q := rpc.ExecAsk{Do: rpc.ExecDoProfile,
		Profile: &rpc.ProfileAsk{Do: do, App: "app", Service: "web", Key: "12345678"}}
	if do == rpc.ProfileStart {
		q.Profile.Load = &rpc.ProfileLoad{}
	}
	a, err := p.Exec(access.With(p.t.Context(), access.Who{Name: "user/ann", Admin: true}), q)
	return a.Profile, err
}

func report(state, why string, took time.Duration, workers ...string) *rpc.ProfileReport {
	r := &rpc.ProfileReport{V: wire.Version, State: state, Why: why, Took: api.Duration(took),
		Whole: api.Duration(2 * took)}
	for i, w := range workers {
		r.Nodes = append(r.Nodes, rpc.ProfileNode{Worker: w, Instances: 1, State: state, Rate: float64(100 * (i + 1))})
	}
	return r
}

// What several clusters say is one report: as far as the slowest, failed where one has
// failed, and each worker with its cluster.
func TestProfileOfSeveralClusters(t *testing.T) {
	away := wire.Problemf(409, "nothing-runs", "", "nothing is ready",
		"cluster west has no instance of app.web that is ready")
	for name, c := range map[string]struct {
		says             map[string]any
		state, why       string
		took             time.Duration
		kept             bool
		workers, trouble []string
	}{
		"both are done": {
			says: map[string]any{"east": report(rpc.ProfileDone, "", 60*time.Second, "w1", "w2"),
				"west": report(rpc.ProfileDone, "", 61*time.Second, "w1")},
			state: rpc.ProfileDone, took: 61 * time.Second, workers: []string{"east/w1", "east/w2", "west/w1"},
		},
		"one goes on": {
			says: map[string]any{"east": report(rpc.ProfileRuns, "", 30*time.Second, "w1"),
				"north": report(rpc.ProfileDone, "", 60*time.Second, "w1")},
			state: rpc.ProfileRuns, took: 60 * time.Second, workers: []string{"east/w1", "north/w1"},
		},
		"one has failed": {
			says: map[string]any{"east": report(rpc.ProfileRuns, "", 30*time.Second, "w1"),
				"west": report(rpc.ProfileFailed, "half of them failed", 20*time.Second, "w1")},
			state: rpc.ProfileFailed, why: "cluster west, half of them failed", took: 30 * time.Second,
			workers: []string{"east/w1", "west/w1"},
		},
		"two have failed": {
			says: map[string]any{"east": report(rpc.ProfileFailed, "a", time.Second),
				"west": report(rpc.ProfileFailed, "b", time.Second)},
			state: rpc.ProfileFailed, why: "cluster east, a; cluster west, b", took: time.Second,
		},
		"one has nothing ready": {
			says:  map[string]any{"east": report(rpc.ProfileDone, "", 60*time.Second, "w1"), "west": away},
			state: rpc.ProfileDone, took: 60 * time.Second, workers: []string{"east/w1"},
			trouble: []string{"west: " + away.Detail},
		},
		"one has stored it": {
			says: map[string]any{"east": &rpc.ProfileReport{V: wire.Version, Stored: true},
				"west": &rpc.ProfileReport{V: wire.Version}},
			kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProfiled(t, c.says)
			r, err := p.step(rpc.ProfileLook)
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
			if r.App != "app" || r.Service != "web" || r.State != c.state || r.Why != c.why ||
				r.Took.Std() != c.took || r.Whole.Std() != 2*c.took || r.Stored != c.kept ||
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
	p := newProfiled(t, map[string]any{"east": report(rpc.ProfileRuns, "", 0, "w1"), "west": busy})
	_, err := p.step(rpc.ProfileStart)
	if is := new(wire.Problem); !errors.As(err, &is) || is.Code != "too-many-profiles" {
		t.Errorf("refused: %v", err)
	}
	slices.Sort(p.asked)
	if want := []string{"end east", "end west", "start east", "start west"}; !slices.Equal(p.asked, want) {
		t.Errorf("asked %v, want %v", p.asked, want)
	}
	none := wire.Problemf(409, "nothing-runs", "", "nothing is ready", "x")
	if r, err := newProfiled(t, map[string]any{"east": report(rpc.ProfileRuns, "", 0, "w1"),
		"west": none}).step(rpc.ProfileStart); err != nil || r.State != rpc.ProfileRuns {
		t.Errorf("one that has nothing ready: %+v, %v", r, err)
	}
	for what, c := range map[string]struct {
		says map[string]any
		want string
	}{
		"the only one has nothing": {map[string]any{"west": none}, "nothing-runs"},
		"in no cluster":            {nil, "nothing-runs"},
		"forgotten everywhere": {map[string]any{"east": wire.Problemf(404, "not-profiled", "", "x", "y")},
			"not-profiled"},
	} {
		_, err := newProfiled(t, c.says).step(rpc.ProfileLook)
		if is := new(wire.Problem); !errors.As(err, &is) || is.Code != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
