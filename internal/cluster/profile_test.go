package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestProfileTurns(t *testing.T) {
	at := []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2", "", "[fd00::1]:1", ""}
	if got, want := profileTurns(at, false), []int{0, 0, 1, 0, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := profileTurns(at, true), []int{0, 1, 2, 3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("one by one: %v, want %v", got, want)
	}
}

// stage is a cluster with a service on workers that answer steps of a profile.
type stage struct {
	*core
	t     *testing.T
	store *bus.MemStore

	mu    sync.Mutex
	nodes map[string]wire.ProfileNode // what a worker says
	asked []string
}

func newStage(t *testing.T, store *bus.MemStore) *stage {
	c := newTestCore(t, store)
	s := &stage{core: c, t: t, store: store, nodes: map[string]wire.ProfileNode{}}
	for i, name := range []string{"w1", "w2", "w3"} {
		w := state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: name, Arch: "amd64", Address: "10.0.0." + name[1:] + ":1", Capacity: api.Resources{CPU: 4000}}}, time.Now())
		if c.m.Workers[name] = w; name == "w3" {
			w.Info.Address = "10.0.0.1:2" // the machine of w1
		}
		id := instanceID("app", "web", i)
		c.m.Insts[id] = &wire.Instance{ID: id, App: "app", Service: "web", Ordinal: i, Worker: name, State: wire.Running, Ready: true}
		s.nodes[name] = wire.ProfileNode{State: wire.ProfileRuns, Concurrency: 10}
		stop, err := c.local.Subscribe(exchange.WorkerSubjects(name).Ask, func(_ context.Context, m bus.Msg) { s.answer(name, m) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	c.m.Given["app.web"] = &wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 1, Min: 3, Max: 3, Ordinals: []wire.Span{{To: 3}}, Spec: &api.Service{
		Runtime: "process", Command: []string{"x"}, Ports: []api.Port{{Protocol: "http"}}, Policy: api.Policy{Name: api.PolicyWeighted},
	}}
	c.m.effect()
	return s
}

func (s *stage) answer(name string, m bus.Msg) {
	var q wire.Ask
	if err := json.Unmarshal(m.Data, &q); err != nil || q.What != "exec" || q.Exec.Profile == nil || q.Exec.Owner != "ann" {
		s.t.Errorf("the worker was asked %s", m.Data)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, q.Exec.Profile.Do+" "+name)
	data, err := json.Marshal(wire.ExecAnswer{Profile: &wire.ProfileReport{V: wire.Version, Nodes: []wire.ProfileNode{s.nodes[name]}}})
	if err == nil {
		data, err = json.Marshal(wire.Answer{V: wire.Version, Data: data})
	}
	if err == nil {
		err = m.Respond(data)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func (s *stage) say(name, state string, requests int, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[name] = wire.ProfileNode{State: state, Requests: requests, Span: api.Duration(10 * time.Second), Concurrency: 10, Problem: problem}
}

// heard is what the workers were asked since the last time, in order of their names.
func (s *stage) heard() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Sorted(slices.Values(s.asked))
	s.asked = nil
	return strings.Join(out, ", ")
}

func (s *stage) step(do, key string) (*wire.ProfileReport, string) {
	s.t.Helper()
	q := &wire.ProfileAsk{Do: do, App: "app", Service: "web", Key: key}
	if do == wire.ProfileStart {
		q.Load = &wire.ProfileLoad{For: api.Duration(10 * time.Second), Body: []byte("secret")}
	}
	r, err := s.profile(s.t.Context(), q, "ann")
	var p *wire.Problem
	switch {
	case errors.As(err, &p):
		return nil, p.Code
	case err != nil:
		s.t.Fatal(err)
	}
	return r, ""
}

func (s *stage) served() map[string]float64 {
	s.t.Helper()
	if _, err := s.pass(s.t.Context(), time.Now(), true); err != nil {
		s.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, e := range s.m.Routes["app.web"].Endpoints {
		out[e.Worker+" "+e.ServesBy] = e.Serves
	}
	return out
}

// Workers have their turns, what they say is stored when it is to be kept, and the
// routes have it from then on, also after a restart.
func TestProfileIsKept(t *testing.T) {
	s := newStage(t, bus.NewMemStore())
	if r, code := s.step(wire.ProfileStart, "key-0001"); code != "" || r.State != wire.ProfileRuns || len(r.Nodes) != 3 || r.Whole.Std() != 22*time.Second {
		t.Fatalf("%+v %s", r, code)
	}
	if got := s.heard(); got != "start w1, start w2" {
		t.Errorf("asked: %s", got)
	}
	if _, code := s.step(wire.ProfileStart, "key-0001"); code != "" || s.heard() != "" {
		t.Errorf("the same again: %s", code)
	}
	if _, code := s.step(wire.ProfileStart, "key-0002"); code != "profiled-already" {
		t.Errorf("another: %q", code)
	}
	for _, do := range []string{wire.ProfileLook, wire.ProfileKeep, wire.ProfileEnd} {
		if _, code := s.step(do, "key-0002"); code != "not-profiled" {
			t.Errorf("%s of another: %q", do, code)
		}
	}
	if _, code := s.step(wire.ProfileKeep, "key-0001"); code != "not-measured" {
		t.Errorf("kept while it goes on: %q", code)
	}
	s.say("w1", wire.ProfileDone, 4000, "")
	if r, _ := s.step(wire.ProfileLook, "key-0001"); r.State != wire.ProfileRuns || s.heard() != "look w1, look w2" {
		t.Errorf("%+v", r)
	}
	s.say("w2", wire.ProfileDone, 1000, "")
	if _, code := s.step(wire.ProfileLook, "key-0001"); code != "" || s.heard() != "look w2, start w3" {
		t.Error("w3 has no turn")
	}
	s.say("w3", wire.ProfileDone, 2000, "")
	r, _ := s.step(wire.ProfileLook, "key-0001")
	if r.State != wire.ProfileDone || r.Stored || r.Nodes[0].Rate != 400 || r.Nodes[1].Rate != 100 || r.Nodes[2].Rate != 200 {
		t.Fatalf("%+v", r)
	}
	if got := s.served(); got["w1 "] != 0 || len(got) != 3 {
		t.Errorf("before it is kept: %v", got)
	}
	s.store.FailWrites(errors.New("disk full"))
	if _, code := s.step(wire.ProfileKeep, "key-0001"); code != "not-stored" || len(s.m.profiles) != 0 {
		t.Errorf("a full disk: %q", code)
	}
	s.store.FailWrites(nil)
	if err := s.reload(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	again := newStage(t, s.store)
	again.profilings = s.profilings
	if r, code := again.step(wire.ProfileKeep, "key-0001"); code != "" || !r.Stored {
		t.Fatalf("%+v %s", r, code)
	}
	if p := again.m.profiles["app.web"]; p == nil || p.Load.Body != nil || p.By != "ann" {
		t.Fatalf("stored is %+v", p)
	}
	third := newStage(t, s.store)
	want := map[string]float64{"w1 profile": 400, "w2 profile": 100, "w3 profile": 200}
	if got := third.served(); !same(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if up := third.m.Ups["app.web.1"]; up == nil || up.Serves != 100 || up.ServesBy != wire.WeightProfile {
		t.Errorf("the root is told %+v", up)
	}
	// A new program, a worker that is new, and one of another kind.
	third.m.Given["app.web"].Spec.Command = []string{"y"}
	third.m.effect()
	third.m.Workers["w4"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w4", Arch: "amd64", Capacity: api.Resources{CPU: 4000}}}, time.Now())
	third.m.Workers["w5"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "w5", Arch: "arm64", Capacity: api.Resources{CPU: 2000}}}, time.Now())
	third.m.Insts["app.web.0"].Worker, third.m.Insts["app.web.1"].Worker = "w4", "w5"
	shown, code := third.step(wire.ProfileShow, "")
	if code != "" || len(shown.Nodes) != 3 {
		t.Fatalf("%+v %s", shown, code)
	}
	got := map[string]float64{}
	for _, n := range shown.Nodes {
		got[n.Worker+" "+n.From] = n.Rate
	}
	mean := 700.0 / 3
	if want := map[string]float64{"w3 old profile": 200, "w4 same kind": mean, "w5 processors": mean / 2}; !same(got, want) || !shown.Nodes[0].Old {
		t.Errorf("%v, want %v", got, want)
	}
	if _, code := third.step(wire.ProfileForget, ""); code != "" {
		t.Error(code)
	}
	if shown, _ := third.step(wire.ProfileShow, ""); shown.Stored || len(shown.Nodes) != 0 {
		t.Errorf("%+v", shown)
	}
}

func same(a, b map[string]float64) bool {
	for k, v := range b {
		if d := a[k] - v; d > 1e-9 || d < -1e-9 {
			return false
		}
	}
	return len(a) == len(b)
}

// One worker where most requests fail ends all, and nothing is stored. So does who
// breaks off, or leaves.
func TestProfileFails(t *testing.T) {
	s := newStage(t, bus.NewMemStore())
	s.step(wire.ProfileStart, "key-0001")
	s.heard()
	s.say("w2", wire.ProfileFailed, 3, "20 of 23 requests failed, the last: status 404")
	r, _ := s.step(wire.ProfileLook, "key-0001")
	if r.State != wire.ProfileFailed || !strings.Contains(r.Why, "worker w2: 20 of 23") || s.heard() != "end w1, look w1, look w2" {
		t.Errorf("%+v", r)
	}
	if _, code := s.step(wire.ProfileKeep, "key-0001"); code != "not-measured" || len(s.m.profiles) != 0 {
		t.Errorf("kept: %q", code)
	}
	s.say("w2", wire.ProfileRuns, 0, "")
	if _, code := s.step(wire.ProfileStart, "key-0002"); code != "" {
		t.Fatal(code)
	}
	s.heard()
	if r, code := s.step(wire.ProfileEnd, "key-0002"); code != "" || r.State != wire.ProfileFailed || s.heard() != "end w1, end w2" {
		t.Errorf("%+v %s", r, code)
	}
	if _, code := s.step(wire.ProfileStart, "key-0003"); code != "" {
		t.Fatal(code)
	}
	run := s.profilings["app.web"]
	run.asked = run.asked.Add(-wire.ProfileIdle) // nobody asks any more
	if _, code := s.step(wire.ProfileStart, "key-0004"); code != "" {
		t.Errorf("after one that was left: %q", code)
	}
	for name, q := range map[string]*wire.ProfileAsk{
		"invalid-request": {Do: wire.ProfileStart, App: "app", Service: "web", Key: "k", Load: &wire.ProfileLoad{For: api.Duration(time.Hour)}},
		"no-http":         {Do: wire.ProfileStart, App: "app", Service: "web", Key: "k", Load: &wire.ProfileLoad{Port: "other"}},
		"no-such-service": {Do: wire.ProfileStart, App: "app", Service: "db", Key: "k", Load: &wire.ProfileLoad{}},
		"bad-request":     {Do: wire.ProfileStart, App: "app", Service: "web", Key: "k"},
		"too-large":       {Do: wire.ProfileStart, App: "app", Service: "web", Key: "k", Load: &wire.ProfileLoad{Body: make([]byte, wire.MaxProfileBody+1)}},
	} {
		run.asked, s.profilings["app.web"] = time.Time{}, run
		_, err := s.profile(t.Context(), q, "ann")
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// What is no more has no profile.
func TestProfilesOfWhatIsGone(t *testing.T) {
	s := newStage(t, bus.NewMemStore())
	if err := s.putProfile(t.Context(), "app.web", &profile{V: wire.Version, App: "app", Service: "web"}); err != nil {
		t.Fatal(err)
	}
	s.served()
	if s.m.profiles["app.web"] == nil {
		t.Fatal("it is gone at once")
	}
	delete(s.m.Given, "app.web")
	s.m.effect()
	if _, err := s.pass(t.Context(), time.Now(), true); err != nil {
		t.Fatal(err)
	}
	if len(s.m.profiles) != 0 {
		t.Errorf("%+v", s.m.profiles)
	}
}
