package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// site is a cluster whose root is away, with two workers that do what they are
// told, on a store of its own.
type site struct {
	*sim
	c     *core
	store *bus.MemStore
	rev   uint64
}

func newSite(t *testing.T) *site {
	t.Helper()
	store := bus.NewMemStore()
	c := newTestCore(t, store)
	s := &site{c: c, store: store, sim: &sim{t: t, m: c.m, now: time.Now(), disk: map[string][]byte{}, fakes: map[string]*fake{}}}
	for _, w := range []string{"w1", "w2"} {
		s.addWorker(w)
		if _, err := store.Put(t.Context(), state.KeyWorker+w, s.disk[state.KeyWorker+w]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

const webFile = `application: app
services:
  web:
    command: [x]
    replicas: %d
    env: {MARK: %q}
    ports: [{name: http, ingress: {host: web.test}}]
`

func web(replicas int, mark string) []byte { return fmt.Appendf(nil, webFile, replicas, mark) }

// give is what the root says from now on about app: nil nothing.
func (s *site) give(source []byte, here int) {
	s.t.Helper()
	s.rev++
	to := wire.Rev{Inc: "root", N: s.rev}
	var changes []wire.Change
	if source != nil {
		spec, _, err := descriptor.Parse("", source)
		if err != nil {
			s.t.Fatal(err)
		}
		for name, svc := range spec.Services {
			sh := wire.Share{V: wire.Version, App: spec.Application, Service: name, Revision: s.rev, Min: here, Max: here, Spec: svc, Ordinals: []wire.Span{{To: here}}}
			changes = append(changes, wire.Change{Key: "share." + spec.Application + "." + name, Value: encoded(s.t, sh)})
		}
	}
	if err := (*rootDesired)(s.c).Take(s.t.Context(), true, changes, to, nil); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// settle lets everybody act until nothing changes any more.
func (s *site) settle() {
	s.t.Helper()
	for range 12 {
		s.now = s.now.Add(time.Second)
		for name, f := range s.fakes {
			f.act(s.sim, name)
		}
		if _, err := s.c.pass(s.t.Context(), s.now, true); err != nil {
			s.t.Fatal(err)
		}
		s.check()
	}
}

func (s *site) apply(source []byte) wire.ApplyResult {
	s.t.Helper()
	r, err := s.c.applyLocal(s.t.Context(), source, false, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.settle()
	return r
}

func (s *site) scale(n int) {
	s.t.Helper()
	if _, err := s.c.scaleLocal(s.t.Context(), "app", "web", n, s.now); err != nil {
		s.t.Fatal(err)
	}
	s.settle()
}

// marks are the values of MARK that run, by instance.
func (s *site) marks() map[string]string {
	out := map[string]string{}
	for name, f := range s.fakes {
		for id, st := range f.has {
			if o := s.c.m.Orders[name+"."+id]; o != nil && st.Phase == wire.PhaseRunning {
				out[id] = o.Spec.Env["MARK"]
			}
		}
	}
	return out
}

func (s *site) starts() (n int) {
	for _, f := range s.fakes {
		n += f.starts
	}
	return n
}

func (s *site) want(what string, ids map[string]string) {
	s.t.Helper()
	if got := fmt.Sprint(s.marks()); got != fmt.Sprint(ids) {
		s.t.Fatalf("%s: %s runs, want %v\n%s", what, got, ids, s.dump())
	}
}

// reopen is a new process on the same store.
func (s *site) reopen() {
	s.t.Helper()
	c := newTestCore(s.t, s.store)
	s.c, s.m = c, c.m
}

func TestALocalScaleStandsUntilTheRootSaysSomethingNew(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	s.scale(4)
	up := map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.100000": "a", "app.web.100001": "a"}
	s.want("scaled up", up)
	if n := s.starts(); n != 4 {
		t.Errorf("%d starts, want 4: what ran is not to be touched", n)
	}
	if l := s.c.m.upLocals["app.web"]; l == nil || l.Change != "scaled 2 → 4" || l.Cluster != "edge" {
		t.Errorf("the root is told %+v", l)
	}
	s.reopen()
	s.settle()
	s.want("after a restart of the cluster", up)
	// The same revision again, and another one in which nothing of it is new.
	s.give(web(2, "a"), 2)
	s.want("the root is back", up)
	// It gives another part of the same: the number here stays what was asked for.
	s.give(web(2, "a"), 1)
	s.want("the root gives one less", map[string]string{"app.web.0": "a", "app.web.100000": "a", "app.web.100001": "a", "app.web.100002": "a"})
	s.give(web(2, "b"), 2)
	s.want("a newer revision", map[string]string{"app.web.0": "b", "app.web.1": "b"})
	v := s.c.m.localViews("")
	if len(v.Changes) != 0 || len(v.Conflicts) != 1 || v.Conflicts[0].Change != "scaled 2 → 4" || !strings.Contains(v.Conflicts[0].Root, "env") {
		t.Fatalf("changes and conflicts: %+v", v)
	}
	if len(s.c.m.upLocals) != 0 || len(s.c.m.upConflicts) != 1 {
		t.Errorf("the root is told %v, %v", s.c.m.upLocals, s.c.m.upConflicts)
	}
	s.reopen()
	s.settle()
	if len(s.c.m.localViews("").Conflicts) != 1 {
		t.Fatal("the conflict did not outlive a restart")
	}
	if err := s.c.ackConflict(t.Context(), v.Conflicts[0].ID, s.now); err != nil {
		t.Fatal(err)
	}
	s.settle()
	if len(s.c.m.localViews("").Conflicts) != 0 || len(s.c.m.upConflicts) != 0 {
		t.Error("an acknowledged conflict is still there")
	}
	if err := s.c.ackConflict(t.Context(), v.Conflicts[0].ID, s.now); err == nil {
		t.Error("it was acknowledged twice")
	}
}

func TestALocalScaleDownAndBack(t *testing.T) {
	s := newSite(t)
	s.give(web(3, "a"), 3)
	s.scale(1)
	s.want("scaled down", map[string]string{"app.web.0": "a"})
	s.scale(0)
	s.want("scaled to nothing", map[string]string{})
	if v := s.c.m.apps(); len(v) != 1 || !v[0].Holds {
		t.Errorf("%+v", v)
	}
	s.scale(3)
	s.want("as the root says", map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.2": "a"})
	if len(s.c.m.locals) != 0 || len(s.c.m.upLocals) != 0 {
		t.Errorf("what is as the root says is still called a local change: %v", s.c.m.locals)
	}
}

func TestALocalEditRollsAndGivesWay(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	r := s.apply(web(2, "mine"))
	if r.Change != "updated" || r.Revision < wire.LocalRevisions {
		t.Errorf("%+v", r)
	}
	s.want("edited", map[string]string{"app.web.0": "mine", "app.web.1": "mine"})
	if again := s.apply(web(2, "mine")); again.Change != "unchanged" || again.Revision != r.Revision {
		t.Errorf("the same again: %+v", again)
	}
	before := s.starts()
	s.apply(web(3, "mine"))
	s.want("and scaled", map[string]string{"app.web.0": "mine", "app.web.1": "mine", "app.web.100000": "mine"})
	if n := s.starts() - before; n != 1 {
		t.Errorf("%d starts for one more, want 1", n)
	}
	s.give(web(2, "b"), 2)
	s.want("overruled", map[string]string{"app.web.0": "b", "app.web.1": "b"})
	c := s.c.m.localViews("").Conflicts
	if len(c) != 1 || c[0].Change != "scaled 2 → 3; changed env" || c[0].RootRevision != 2 {
		t.Fatalf("conflicts: %+v", c)
	}
	view, err := backend{&Cluster{core: s.c}}.LocalChanges(t.Context())
	if err != nil || view.Conflicts[0].Spec == nil || view.Conflicts[0].Spec.Env["MARK"] != "mine" {
		t.Errorf("what it was is not to be had any more: %+v, %v", view, err)
	}
	if s.c.m.upConflicts[c[0].ID].Spec != nil {
		t.Error("the root is told the whole of it")
	}
}

func TestARootThatSaysTheSameIsNoConflict(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	s.apply(web(4, "mine"))
	s.settle()
	// Nothing is missing while the root's instances take over from the site's own.
	before := len(s.marks())
	s.rev++
	s.give(web(4, "mine"), 4)
	if len(s.c.m.locals) != 0 || len(s.c.m.conflicts) != 0 {
		t.Errorf("locals %v, conflicts %v", s.c.m.locals, s.c.m.conflicts)
	}
	s.want("adopted", map[string]string{"app.web.0": "mine", "app.web.1": "mine", "app.web.2": "mine", "app.web.3": "mine"})
	if before != 4 {
		t.Errorf("%d ran before", before)
	}
}

// While the root's take over from instances of the site's own, as many answer as
// before, for as long as there is room for both.
func TestHandingOverLosesNobody(t *testing.T) {
	s := newSite(t)
	s.give(web(1, "a"), 1)
	s.scale(3)
	spec := s.c.m.Given["app.web"].Spec
	next := *spec
	next.Replicas = api.Replicas{Min: 3, Max: 3}
	sh := wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 9, Min: 3, Max: 3, Spec: &next, Ordinals: []wire.Span{{To: 3}}}
	if err := (*rootDesired)(s.c).Take(t.Context(), false, []wire.Change{{Key: "share.app.web", Value: encoded(t, sh)}}, wire.Rev{Inc: "root", N: 99}, nil); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := s.c.pass(t.Context(), s.now, true); err != nil {
			t.Fatal(err)
		}
		if ready, _ := s.endpoints("web"); ready < 3 {
			t.Fatalf("%d endpoints\n%s", ready, s.dump())
		}
		s.now = s.now.Add(time.Second)
		for name, f := range s.fakes {
			f.act(s.sim, name)
		}
	}
	s.settle()
	s.want("handed over", map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.2": "a"})
}

// Where the others have no room while these are there, they must go.
func TestHandingOverDoesNotBlockForEver(t *testing.T) {
	s := newSite(t)
	s.give(web(1, "a"), 1)
	s.scale(20) // 100m each on two workers of one core: full
	if n := len(s.marks()); n != 20 {
		t.Fatalf("%d run, want 20\n%s", n, s.dump())
	}
	// They are full, so that none can run beyond those promised.
	s.give(append(web(20, "b"), "    rollout: {max_unavailable: 5}\n"...), 20)
	for range 12 {
		s.settle()
	}
	if n := len(s.marks()); n != 20 || s.marks()["app.web.19"] != "b" {
		t.Fatalf("%d run: %v\n%s", n, s.marks(), s.dump())
	}
}

func TestAnApplicationOfTheSite(t *testing.T) {
	s := newSite(t)
	if r := s.apply(web(2, "mine")); r.Change != "created" {
		t.Errorf("%+v", r)
	}
	s.want("created", map[string]string{"app.web.100000": "mine", "app.web.100001": "mine"})
	if ready, _ := s.endpoints("web"); ready != 2 {
		t.Errorf("%d endpoints", ready)
	}
	// The root comes back and knows nothing of it.
	s.give(nil, 0)
	s.want("the root is back", map[string]string{"app.web.100000": "mine", "app.web.100001": "mine"})
	// A root that has an application of that name counts.
	s.give(web(1, "root"), 1)
	s.want("the name is taken", map[string]string{"app.web.0": "root"})
	if c := s.c.m.localViews("app").Conflicts; len(c) != 1 || c[0].Change != "created, 2 instances" {
		t.Errorf("conflicts: %+v", c)
	}
}

// An application of the site gives way as a whole to one of its name, be that
// elsewhere.
func TestAnApplicationElsewhereTakesTheName(t *testing.T) {
	s := newSite(t)
	s.apply(web(1, "mine"))
	far := wire.Route{V: wire.Version, App: "app", Service: "other", Ports: []api.Port{{Name: "http"}}}
	if err := (*rootDesired)(s.c).Take(t.Context(), true, []wire.Change{{Key: "route.app.other", Value: encoded(t, far)}}, wire.Rev{Inc: "root", N: 9}, nil); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.want("the name is taken", map[string]string{})
	if c := s.c.m.localViews("app").Conflicts; len(c) != 1 {
		t.Errorf("conflicts: %+v", c)
	}
}

// What the root runs elsewhere may be run here too while it is away.
func TestAServiceThatIsElsewhereCanBeBroughtHere(t *testing.T) {
	s := newSite(t)
	far := wire.Route{V: wire.Version, App: "app", Service: "web", Ports: []api.Port{{Name: "http"}}}
	route := []wire.Change{{Key: "route.app.web", Value: encoded(t, far)}}
	if err := (*rootDesired)(s.c).Take(t.Context(), true, route, wire.Rev{Inc: "root", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if r := s.apply(web(1, "a")); r.Change != "updated" || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
	if err := (*rootDesired)(s.c).Take(t.Context(), true, route, wire.Rev{Inc: "root", N: 2}, nil); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.want("the root is back", map[string]string{"app.web.100000": "a"})
	if err := (*rootDesired)(s.c).Take(t.Context(), true, nil, wire.Rev{Inc: "root", N: 3}, nil); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.want("the root has deleted it", map[string]string{})
}

func TestADeletedApplicationStaysDeleted(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	if err := s.c.deleteLocal(t.Context(), "app", s.now); err != nil {
		t.Fatal(err)
	}
	if v := s.c.m.apps(); len(v) != 0 && !v[0].Deleting { // before the pass it is there
		t.Logf("%+v", v)
	}
	s.settle()
	s.want("deleted", map[string]string{})
	if v := s.c.m.apps(); len(v) != 0 {
		t.Errorf("it is still shown: %+v", v)
	}
	s.give(web(2, "a"), 2)
	s.want("the root is back", map[string]string{})
	if l := s.c.m.upLocals["app.web"]; l == nil || l.Change != "deleted" {
		t.Errorf("the root is told %+v", l)
	}
	// The root takes it away as well: nothing is left to say.
	s.give(nil, 0)
	if len(s.c.m.locals)+len(s.c.m.conflicts) != 0 {
		t.Errorf("locals %v, conflicts %v", s.c.m.locals, s.c.m.conflicts)
	}
	s.give(web(2, "a"), 2)
	s.want("applied anew", map[string]string{"app.web.0": "a", "app.web.1": "a"})
	if err := s.c.deleteLocal(t.Context(), "nothing", s.now); err == nil {
		t.Error("what is not there was deleted")
	}
}

func TestALocalChangeCanBeTakenBack(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	s.apply(web(3, "mine"))
	if err := s.c.dropLocal(t.Context(), "app", "web", s.now); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.want("taken back", map[string]string{"app.web.0": "a", "app.web.1": "a"})
	if err := s.c.dropLocal(t.Context(), "app", "", s.now); err == nil {
		t.Error("it was taken back twice")
	}
	s.apply([]byte("application: own\nservices: {job: {command: [x]}}\n"))
	s.want("another one", map[string]string{"app.web.0": "a", "app.web.1": "a", "own.job.100000": ""})
	if err := s.c.dropLocal(t.Context(), "own", "", s.now); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.want("taken back", map[string]string{"app.web.0": "a", "app.web.1": "a"})
}

// An apply is the whole of an application: what the file does not have goes.
func TestALocalApplyIsTheWhole(t *testing.T) {
	s := newSite(t)
	s.give([]byte("application: app\nservices: {a: {command: [x]}, b: {command: [x]}}\n"), 1)
	s.want("given", map[string]string{"app.a.0": "", "app.b.0": ""})
	s.apply([]byte("application: app\nservices: {a: {command: [x]}, c: {command: [x]}}\n"))
	s.want("applied", map[string]string{"app.a.0": "", "app.c.100000": ""})
	v := s.c.m.localViews("app").Changes
	if len(v) != 2 || v[0].Change != "deleted" || v[1].Change != "created, 1 instance" {
		t.Errorf("%+v", v)
	}
	dry, err := s.c.applyLocal(t.Context(), []byte("application: app\nservices: {a: {command: [y]}}\n"), true, s.now)
	if err != nil || dry.Change != "updated" {
		t.Errorf("%+v, %v", dry, err)
	}
	s.settle()
	s.want("after a dry run", map[string]string{"app.a.0": "", "app.c.100000": ""})
}

func TestEditsThatAreRefused(t *testing.T) {
	s := newSite(t)
	s.give(web(1, "a"), 1)
	code := func(err error) string {
		var p *wire.Problem
		if !errors.As(err, &p) || p.Remedy == "" {
			return fmt.Sprintf("no problem with a remedy: %v", err)
		}
		return p.Code
	}
	check := func(want string, err error) {
		t.Helper()
		if got := code(err); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	_, err := s.c.applyLocal(t.Context(), []byte("application: other\nservices: {web: {command: [x], ports: [{name: http, ingress: {host: web.test}}]}}"), false, s.now)
	check("host-taken", err)
	_, err = s.c.applyLocal(t.Context(), []byte("application: other\nservices: {web: {runtime: container, image: x, security: {add: SYS_ADMIN}}}"), false, s.now)
	check("over-rights", err)
	_, err = s.c.applyLocal(t.Context(), []byte("services: {}"), false, s.now)
	check("invalid-descriptor", err)
	_, err = s.c.scaleLocal(t.Context(), "app", "none", 2, s.now)
	check("no-such-service", err)
	_, err = s.c.scaleLocal(t.Context(), "none", "web", 2, s.now)
	check("no-such-application", err)
	_, err = s.c.scaleLocal(t.Context(), "app", "web", api.MaxReplicas+1, s.now)
	check("cannot-scale", err)
	s.store.FailWrites(errors.New("disk full"))
	_, err = s.c.scaleLocal(t.Context(), "app", "web", 2, s.now)
	check("not-stored", err)
	s.store.FailWrites(nil)
	s.settle()
	s.want("nothing of it counts", map[string]string{"app.web.0": "a"})
	// A connected root is the place, unless it is meant for here.
	s.c.upErr = nil
	_, err = s.c.scaleLocal(t.Context(), "app", "web", 2, s.now)
	check("root-connected", err)
	check("root-connected", s.c.deleteLocal(t.Context(), "app", s.now))
	if _, err = s.c.scaleLocal(rest.WithLocal(t.Context(), true), "app", "web", 2, s.now); err != nil {
		t.Error(err)
	}
}

// A host that the root gives to another service later is that one's.
func TestARootsHostCounts(t *testing.T) {
	s := newSite(t)
	s.apply([]byte(strings.Replace(string(web(1, "mine")), "application: app", "application: own", 1)))
	s.give(web(1, "a"), 1)
	if r := s.c.m.Routes["own.web"]; r.Ports[0].Ingress != nil {
		t.Error("two services publish one host")
	}
	if s.c.m.Routes["app.web"].Ports[0].Ingress == nil || s.c.m.Shares["own.web"].Spec.Ports[0].Ingress == nil {
		t.Error("the wrong one lost it")
	}
	if p := s.c.m.lostHosts(); len(p) != 1 {
		t.Errorf("problems: %v", p)
	}
	s.give(nil, 0)
	if r := s.c.m.Routes["own.web"]; r.Ports[0].Ingress == nil {
		t.Error("it did not get the host back")
	}
}

func TestConflictsAreBounded(t *testing.T) {
	s := newSite(t)
	for n := range maxConflicts + 5 {
		s.rev++
		spec, _, err := descriptor.Parse("", web(1, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		sh := wire.Share{V: wire.Version, App: "app", Service: "web", Revision: s.rev, Min: 1, Max: 1, Spec: spec.Services["web"], Ordinals: []wire.Span{{To: 1}}}
		if err := (*rootDesired)(s.c).Take(t.Context(), false, []wire.Change{{Key: "share.app.web", Value: encoded(t, sh)}}, wire.Rev{Inc: "root", N: s.rev}, nil); err != nil {
			t.Fatal(err)
		}
		pass(t, s.c)
		if _, err := s.c.scaleLocal(t.Context(), "app", "web", 2, s.now); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, s.c)
	v := s.c.m.localViews("").Conflicts
	if len(v) != maxConflicts || v[0].ID != "5" {
		t.Errorf("%d conflicts from %s on", len(v), v[0].ID)
	}
	entries, err := s.store.List(context.Background(), keyConflict)
	if err != nil || len(entries) != maxConflicts {
		t.Errorf("%d are stored, %v", len(entries), err)
	}
}

func TestARestartAtTheSite(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	restart := func(q wire.RestartRequest, want int) {
		t.Helper()
		before := s.starts()
		r, err := s.c.restartLocal(t.Context(), "app", q, s.now)
		if err != nil || len(r.Instances) != want {
			t.Fatalf("%+v, %v, want %d", r, err, want)
		}
		s.reopen() // the wish is durable
		s.settle()
		s.settle()
		if n := s.starts() - before; n != want {
			t.Fatalf("%d starts, want %d\n%s", n, want, s.dump())
		}
		for _, id := range r.Instances {
			if i := s.c.m.Insts[id]; i.Restarted != r.N || !i.Ready {
				t.Errorf("%s: restarted %d, ready %v, want %d", id, i.Restarted, i.Ready, r.N)
			}
		}
	}
	one := 1
	restart(wire.RestartRequest{Service: "web", Ordinal: &one}, 1)
	restart(wire.RestartRequest{}, 2)
	s.scale(3)
	restart(wire.RestartRequest{Service: "web"}, 3)
	if len(s.c.m.locals) != 1 {
		t.Errorf("a restart is called a change: %v", s.c.m.locals)
	}
	// The root is back, and knows nothing of it: nothing is started once more.
	before := s.starts()
	s.give(web(2, "a"), 2)
	if n := s.starts() - before; n != 0 {
		t.Errorf("%d starts after the root came back", n)
	}
	s.give(nil, 0)
	if len(s.c.m.again) != 0 {
		t.Errorf("marks of what is gone are kept: %v", s.c.m.again)
	}
	for want, q := range map[string]wire.RestartRequest{
		"no-such-application": {}, "invalid-request": {Ordinal: &one},
	} {
		var p *wire.Problem
		if _, err := s.c.restartLocal(t.Context(), "app", q, s.now); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Whatever the root and the site say, in whatever order: in the end what counts
// runs, once, and every change that is kept still stands.
func TestAnyOrderOfChangesEndsWell(t *testing.T) {
	for seed := range seeds(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := newSite(t)
		for range 25 {
			var err error
			switch rng.IntN(9) {
			case 0, 1:
				n := rng.IntN(4)
				s.give(web(n, fmt.Sprint("r", rng.IntN(2))), n)
			case 2:
				s.give(nil, 0)
			case 3, 4:
				_, err = s.c.scaleLocal(t.Context(), "app", "web", rng.IntN(6), s.now)
			case 5:
				_, err = s.c.applyLocal(t.Context(), web(rng.IntN(4), fmt.Sprint("l", rng.IntN(2))), false, s.now)
			case 6:
				err = s.c.deleteLocal(t.Context(), "app", s.now)
			case 7:
				s.reopen()
				w := s.fakes[[]string{"w1", "w2"}[rng.IntN(2)]]
				w.linked = !w.linked
			case 8:
				err = s.c.dropLocal(t.Context(), "app", "", s.now)
			}
			var p *wire.Problem
			if err != nil && !errors.As(err, &p) {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				s.settle()
			}
		}
		for _, f := range s.fakes {
			f.linked = true
		}
		for range 8 {
			s.settle()
		}
		want := map[string]string{}
		if sh := s.c.m.Shares["app.web"]; sh != nil {
			for _, o := range ordinals(sh) {
				want[instanceID("app", "web", o)] = sh.Spec.Env["MARK"]
			}
		}
		s.want(fmt.Sprintf("seed %d", seed), want)
		if l := s.c.m.locals["app.web"]; l != nil {
			if f, why := s.c.m.fate(l, s.c.m.rootKnows()); f != stands {
				t.Fatalf("seed %d: a change is kept that does not stand: %s", seed, why)
			}
		}
		before := s.dump()
		s.reopen()
		s.settle()
		if after := s.dump(); after != before {
			t.Fatalf("seed %d: a restart changed\n%s into\n%s", seed, before, after)
		}
	}
}

// A site goes by what the root has said of who may publish which host, also where nothing
// of the namespace runs there, and after a restart.
func TestASiteKeepsToTheHostsOfNamespaces(t *testing.T) {
	s := newSite(t)
	take := func(full bool, changes ...wire.Change) {
		t.Helper()
		s.rev++
		if err := (*rootDesired)(s.c).Take(t.Context(), full, changes, wire.Rev{Inc: "root", N: s.rev}, nil); err != nil {
			t.Fatal(err)
		}
		s.settle()
	}
	far := wire.Route{V: wire.Version, App: "far", Namespace: "theirs", Service: "web", Policy: "round-robin", Ports: []api.Port{{Name: "http", Protocol: "http", Ingress: &api.Ingress{Host: "b.test"}}}}
	take(true, wire.Change{Key: "publish.shop", Value: encoded(t, wire.Publish{V: wire.Version, Hosts: "*.shop.test"})},
		wire.Change{Key: "publish.theirs", Value: encoded(t, wire.Publish{V: wire.Version, Hosts: "c.test", Ports: "5432"})},
		wire.Change{Key: "route.far.web", Value: encoded(t, far)})
	descriptor := func(namespace, ingress string) []byte {
		return fmt.Appendf(nil, "application: own\nnamespace: %s\nservices: {web: {command: [x], ports: [{name: p, protocol: %s, number: 80, ingress: {%s}}]}}\n",
			namespace, map[bool]string{true: "http", false: "tcp"}[strings.HasPrefix(ingress, "host")], ingress)
	}
	apply := func(namespace, ingress string) string {
		t.Helper()
		_, err := s.c.applyLocal(t.Context(), descriptor(namespace, ingress), true, s.now)
		var p *wire.Problem
		if err != nil && !errors.As(err, &p) {
			t.Fatal(err)
		}
		if p != nil {
			return p.Code
		}
		return ""
	}
	check := func(when string) {
		t.Helper()
		for _, c := range []struct{ namespace, ingress, code string }{
			{"shop", "host: a.shop.test", ""},
			{"shop", "host: other.test", "not-to-publish"},
			{"mine", "host: a.shop.test", "not-to-publish"},
			{"mine", "host: c.test", "not-to-publish"},
			{"mine", "host: localhost", "not-to-publish"},
			{"mine", "host: '*.b.test'", "host-taken"},
			{"mine", "port: 5432", "not-to-publish"},
			{"mine", "port: 5433", ""},
			{"theirs", "port: 5432", ""},
			{"mine", "host: hello.localhost", ""},
		} {
			if got := apply(c.namespace, c.ingress); got != c.code {
				t.Errorf("%s, %s of %s: %q, want %q", when, c.ingress, c.namespace, got, c.code)
			}
		}
	}
	check("told")
	again := newModel("c", true, s.now)
	if err := again.read(t.Context(), s.store, s.now); err != nil {
		t.Fatal(err)
	}
	if len(again.publish) != 2 || again.publish["shop"].Hosts != "*.shop.test" {
		t.Errorf("after a restart: %+v", again.publish)
	}
	take(false, wire.Change{Key: "publish.shop", Deleted: true})
	if got := apply("mine", "host: a.shop.test"); got != "" {
		t.Errorf("what nobody has any more: %q", got)
	}
	take(true)
	if got := apply("mine", "host: c.test"); got != "" || len(s.c.m.publish) != 0 {
		t.Errorf("all was told anew: %q, %+v", got, s.c.m.publish)
	}
}

// A wildcard that was made here yields to a host that the root gives to another namespace.
func TestAWildcardYieldsToARootsHost(t *testing.T) {
	s := newSite(t)
	s.apply([]byte("application: own\nnamespace: mine\nservices: {web: {command: [x], ports: [{name: http, ingress: {host: '*.web.test'}}]}}\n"))
	if s.c.m.Routes["own.web"].Ports[0].Ingress == nil {
		t.Fatal("it is not published")
	}
	s.give(web(1, "a"), 1)
	if s.c.m.Routes["own.web"].Ports[0].Ingress != nil || s.c.m.Routes["app.web"].Ports[0].Ingress == nil {
		t.Error("the wildcard is published beside the other namespace's host")
	}
	if p := s.c.m.lostHosts(); len(p) != 1 || !strings.Contains(p[0], "own.web") {
		t.Errorf("problems: %v", p)
	}
}
