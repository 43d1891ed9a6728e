package localedit_test

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
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

func TestALocalScaleStandsUntilTheRootSaysSomethingNew(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	s.ScaleLocal(4)
	up := map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.100000": "a", "app.web.100001": "a"}
	s.WantRunning("scaled up", up)
	if n := s.Starts(); n != 4 {
		t.Errorf("%d starts, want 4: what ran is not to be touched", n)
	}
	if l := localedit.UpLocalTable.Rows(s.Core.M.DB)["app.web"]; l == nil || l.Change != "scaled 2 → 4" ||
		l.Cluster != "edge" {
		t.Errorf("the root is told %+v", l)
	}
	s.Reopen()
	s.Settle()
	s.WantRunning("after a restart of the cluster", up)
	// The same revision again, and another one in which nothing of it is new.
	s.Give(clustertest.Web(2, "a"), 2)
	s.WantRunning("the root is back", up)
	// It gives another part of the same: the number here stays what was asked for.
	s.Give(clustertest.Web(2, "a"), 1)
	s.WantRunning("the root gives one less", map[string]string{"app.web.0": "a", "app.web.100000": "a",
		"app.web.100001": "a", "app.web.100002": "a"})
	s.Give(clustertest.Web(2, "b"), 2)
	s.WantRunning("a newer revision", map[string]string{"app.web.0": "b", "app.web.1": "b"})
	v := localedit.Views(s.Core.M, "")
	if len(v.Changes) != 0 || len(v.Conflicts) != 1 || v.Conflicts[0].Change != "scaled 2 → 4" ||
		!strings.Contains(v.Conflicts[0].Root, "env") {
		t.Fatalf("changes and conflicts: %+v", v)
	}
	if len(localedit.UpLocalTable.Rows(s.Core.M.DB)) != 0 || len(localedit.UpConflictTable.Rows(s.Core.M.DB)) != 1 {
		t.Errorf("the root is told %v, %v", localedit.UpLocalTable.Rows(s.Core.M.DB),
			localedit.UpConflictTable.Rows(s.Core.M.DB))
	}
	s.Reopen()
	s.Settle()
	if len(localedit.Views(s.Core.M, "").Conflicts) != 1 {
		t.Fatal("the conflict did not outlive a restart")
	}
	if err := edits.AckConflict(t.Context(), s.Core, v.Conflicts[0].ID, s.Now); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	if len(localedit.Views(s.Core.M, "").Conflicts) != 0 || len(localedit.UpConflictTable.Rows(s.Core.M.DB)) != 0 {
		t.Error("an acknowledged conflict is still there")
	}
	if err := edits.AckConflict(t.Context(), s.Core, v.Conflicts[0].ID, s.Now); err == nil {
		t.Error("it was acknowledged twice")
	}
}

func TestALocalScaleDownAndBack(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(3, "a"), 3)
	s.ScaleLocal(1)
	s.WantRunning("scaled down", map[string]string{"app.web.0": "a"})
	s.ScaleLocal(0)
	s.WantRunning("scaled to nothing", map[string]string{})
	if v := views.Apps(s.Core.M); len(v) != 1 || !v[0].Holds {
		t.Errorf("%+v", v)
	}
	s.ScaleLocal(3)
	s.WantRunning("as the root says", map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.2": "a"})
	if len(localedit.Table.Rows(s.Core.M.DB)) != 0 || len(localedit.UpLocalTable.Rows(s.Core.M.DB)) != 0 {
		t.Errorf("what is as the root says is still called a local change: %v", localedit.Table.Rows(s.Core.M.DB))
	}
}

func TestARootThatSaysTheSameIsNoConflict(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	s.ApplyLocal(clustertest.Web(4, "mine"))
	s.Settle()
	// Nothing is missing while the root's instances take over from the site's own.
	before := len(s.Running())
	s.Rev++
	s.Give(clustertest.Web(4, "mine"), 4)
	if len(localedit.Table.Rows(s.Core.M.DB)) != 0 || len(localedit.ConflictTable.Rows(s.Core.M.DB)) != 0 {
		t.Errorf("locals %v, conflicts %v", localedit.Table.Rows(s.Core.M.DB), localedit.ConflictTable.Rows(s.Core.M.DB))
	}
	s.WantRunning("adopted", map[string]string{"app.web.0": "mine", "app.web.1": "mine", "app.web.2": "mine",
		"app.web.3": "mine"})
	if before != 4 {
		t.Errorf("%d ran before", before)
	}
}

// While the root's take over from instances of the site's own, as many answer as
// before, for as long as there is room for both.
func TestHandingOverLosesNobody(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(1, "a"), 1)
	s.ScaleLocal(3)
	spec := s.Core.M.FromRoot["app.web"].Spec
	next := *spec
	next.Replicas = api.Replicas{Min: 3, Max: 3}
	sh := wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 9, Min: 3, Max: 3, Spec: &next,
		Ordinals: []wire.Span{{To: 3}}}
	if err := uplink.FromRoot(s.Core).Take(t.Context(), false,
		[]wire.Change{{Key: "share.app.web", Value: clustertest.JSON(t, sh)}}, wire.Rev{Inc: "root", N: 99},
		nil); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if _, err := controller.Pass(t.Context(), s.Core, s.Now, true); err != nil {
			t.Fatal(err)
		}
		if ready, _ := s.Endpoints("web"); ready < 3 {
			t.Fatalf("%d endpoints\n%s", ready, s.Dump())
		}
		s.Now = s.Now.Add(time.Second)
		for name, f := range s.Workers {
			f.Act(s.Sim, name)
		}
	}
	s.Settle()
	s.WantRunning("handed over", map[string]string{"app.web.0": "a", "app.web.1": "a", "app.web.2": "a"})
}

// Where the others have no room while these are there, they must go.
func TestHandingOverDoesNotBlockForEver(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(1, "a"), 1)
	s.ScaleLocal(20) // 100m each on two workers of one core: full
	if n := len(s.Running()); n != 20 {
		t.Fatalf("%d run, want 20\n%s", n, s.Dump())
	}
	// They are full, so that none can run beyond those promised.
	s.Give(append(clustertest.Web(20, "b"), "    rollout: {max_unavailable: 5}\n"...), 20)
	for range 12 {
		s.Settle()
	}
	if n := len(s.Running()); n != 20 || s.Running()["app.web.19"] != "b" {
		t.Fatalf("%d run: %v\n%s", n, s.Running(), s.Dump())
	}
}

func TestAnApplicationOfTheSite(t *testing.T) {
	s := clustertest.NewSite(t)
	if r := s.ApplyLocal(clustertest.Web(2, "mine")); r.Change != "created" {
		t.Errorf("%+v", r)
	}
	s.WantRunning("created", map[string]string{"app.web.100000": "mine", "app.web.100001": "mine"})
	if ready, _ := s.Endpoints("web"); ready != 2 {
		t.Errorf("%d endpoints", ready)
	}
	// The root comes back and knows nothing of it.
	s.Give(nil, 0)
	s.WantRunning("the root is back", map[string]string{"app.web.100000": "mine", "app.web.100001": "mine"})
	// A root that has an application of that name counts.
	s.Give(clustertest.Web(1, "root"), 1)
	s.WantRunning("the name is taken", map[string]string{"app.web.0": "root"})
	if c := localedit.Views(s.Core.M, "app").Conflicts; len(c) != 1 || c[0].Change != "created, 2 instances" {
		t.Errorf("conflicts: %+v", c)
	}
}

// An application of the site gives way as a whole to one of its name, be that
// elsewhere.
func TestAnApplicationElsewhereTakesTheName(t *testing.T) {
	s := clustertest.NewSite(t)
	s.ApplyLocal(clustertest.Web(1, "mine"))
	far := wire.Route{V: wire.Version, App: "app", Service: "other", Ports: []api.Port{{Name: "http"}}}
	if err := uplink.FromRoot(s.Core).Take(t.Context(), true,
		[]wire.Change{{Key: "route.app.other", Value: clustertest.JSON(t, far)}}, wire.Rev{Inc: "root", N: 9},
		nil); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.WantRunning("the name is taken", map[string]string{})
	if c := localedit.Views(s.Core.M, "app").Conflicts; len(c) != 1 {
		t.Errorf("conflicts: %+v", c)
	}
}

// What the root runs elsewhere may be run here too while it is away.
func TestAServiceThatIsElsewhereCanBeBroughtHere(t *testing.T) {
	s := clustertest.NewSite(t)
	far := wire.Route{V: wire.Version, App: "app", Service: "web", Ports: []api.Port{{Name: "http"}}}
	route := []wire.Change{{Key: "route.app.web", Value: clustertest.JSON(t, far)}}
	if err := uplink.FromRoot(s.Core).Take(t.Context(), true, route, wire.Rev{Inc: "root", N: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if r := s.ApplyLocal(clustertest.Web(1, "a")); r.Change != "updated" || len(r.Warnings) == 0 {
		t.Errorf("%+v", r)
	}
	if err := uplink.FromRoot(s.Core).Take(t.Context(), true, route, wire.Rev{Inc: "root", N: 2}, nil); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.WantRunning("the root is back", map[string]string{"app.web.100000": "a"})
	if err := uplink.FromRoot(s.Core).Take(t.Context(), true, nil, wire.Rev{Inc: "root", N: 3}, nil); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	s.WantRunning("the root has deleted it", map[string]string{})
}

func TestADeletedApplicationStaysDeleted(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	if err := edits.DeleteLocal(t.Context(), s.Core, "app", s.Now); err != nil {
		t.Fatal(err)
	}
	if v := views.Apps(s.Core.M); len(v) != 0 && !v[0].Deleting { // before the pass it is there
		t.Logf("%+v", v)
	}
	s.Settle()
	s.WantRunning("deleted", map[string]string{})
	if v := views.Apps(s.Core.M); len(v) != 0 {
		t.Errorf("it is still shown: %+v", v)
	}
	s.Give(clustertest.Web(2, "a"), 2)
	s.WantRunning("the root is back", map[string]string{})
	if l := localedit.UpLocalTable.Rows(s.Core.M.DB)["app.web"]; l == nil || l.Change != "deleted" {
		t.Errorf("the root is told %+v", l)
	}
	// The root takes it away as well: nothing is left to say.
	s.Give(nil, 0)
	if len(localedit.Table.Rows(s.Core.M.DB))+len(localedit.ConflictTable.Rows(s.Core.M.DB)) != 0 {
		t.Errorf("locals %v, conflicts %v", localedit.Table.Rows(s.Core.M.DB), localedit.ConflictTable.Rows(s.Core.M.DB))
	}
	s.Give(clustertest.Web(2, "a"), 2)
	s.WantRunning("applied anew", map[string]string{"app.web.0": "a", "app.web.1": "a"})
	if err := edits.DeleteLocal(t.Context(), s.Core, "nothing", s.Now); err == nil {
		t.Error("what is not there was deleted")
	}
}

// A host that the root gives to another service later is that one's.
func TestARootsHostCounts(t *testing.T) {
	s := clustertest.NewSite(t)
	s.ApplyLocal([]byte(strings.Replace(string(clustertest.Web(1, "mine")), "application: app", "application: own", 1)))
	s.Give(clustertest.Web(1, "a"), 1)
	if r := s.Core.M.Routes["own.web"]; r.Ports[0].Ingress != nil {
		t.Error("two services publish one host")
	}
	if s.Core.M.Routes["app.web"].Ports[0].Ingress == nil || s.Core.M.Shares["own.web"].Spec.Ports[0].Ingress == nil {
		t.Error("the wrong one lost it")
	}
	if p := localedit.LostHosts(s.Core.M); len(p) != 1 {
		t.Errorf("problems: %v", p)
	}
	s.Give(nil, 0)
	if r := s.Core.M.Routes["own.web"]; r.Ports[0].Ingress == nil {
		t.Error("it did not get the host back")
	}
}

func TestConflictsAreBounded(t *testing.T) {
	s := clustertest.NewSite(t)
	for n := range localedit.MaxConflicts + 5 {
		s.Rev++
		spec, _, err := descriptor.Parse("", clustertest.Web(1, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		sh := wire.Share{V: wire.Version, App: "app", Service: "web", Revision: s.Rev, Min: 1, Max: 1,
			Spec: spec.Services["web"], Ordinals: []wire.Span{{To: 1}}}
		if err := uplink.FromRoot(s.Core).Take(t.Context(), false,
			[]wire.Change{{Key: "share.app.web", Value: clustertest.JSON(t, sh)}}, wire.Rev{Inc: "root", N: s.Rev},
			nil); err != nil {
			t.Fatal(err)
		}
		clustertest.Pass(t, s.Core)
		if _, err := edits.ScaleLocal(t.Context(), s.Core, "app", "web", 2, s.Now); err != nil {
			t.Fatal(err)
		}
	}
	clustertest.Pass(t, s.Core)
	v := localedit.Views(s.Core.M, "").Conflicts
	if len(v) != localedit.MaxConflicts || v[0].ID != "5" {
		t.Errorf("%d conflicts from %s on", len(v), v[0].ID)
	}
	entries, err := s.Store.List(context.Background(), localedit.KeyConflict)
	if err != nil || len(entries) != localedit.MaxConflicts {
		t.Errorf("%d are stored, %v", len(entries), err)
	}
}

// Whatever the root and the site say, in whatever order: in the end what counts
// runs, once, and every change that is kept still stands.
func TestAnyOrderOfChangesEndsWell(t *testing.T) {
	for seed := range clustertest.Seeds(12) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := clustertest.NewSite(t)
		for range 25 {
			var err error
			switch rng.IntN(9) {
			case 0, 1:
				n := rng.IntN(4)
				s.Give(clustertest.Web(n, fmt.Sprint("r", rng.IntN(2))), n)
			case 2:
				s.Give(nil, 0)
			case 3, 4:
				_, err = edits.ScaleLocal(t.Context(), s.Core, "app", "web", rng.IntN(6), s.Now)
			case 5:
				_, err = edits.ApplyLocal(t.Context(), s.Core, clustertest.Web(rng.IntN(4), fmt.Sprint("l", rng.IntN(2))), false,
					s.Now)
			case 6:
				err = edits.DeleteLocal(t.Context(), s.Core, "app", s.Now)
			case 7:
				s.Reopen()
				w := s.Workers[[]string{"w1", "w2"}[rng.IntN(2)]]
				w.Linked = !w.Linked
			case 8:
				err = edits.DropLocal(t.Context(), s.Core, "app", "", s.Now)
			}
			var p *wire.Problem
			if err != nil && !errors.As(err, &p) {
				t.Fatal(err)
			}
			if rng.IntN(2) == 0 {
				s.Settle()
			}
		}
		for _, f := range s.Workers {
			f.Linked = true
		}
		for range 8 {
			s.Settle()
		}
		want := map[string]string{}
		if sh := s.Core.M.Shares["app.web"]; sh != nil {
			for _, o := range state.Ordinals(sh) {
				want[state.InstanceID("app", "web", o)] = sh.Spec.Env["MARK"]
			}
		}
		s.WantRunning(fmt.Sprintf("seed %d", seed), want)
		if l := localedit.Table.Rows(s.Core.M.DB)["app.web"]; l != nil {
			if f, why := localedit.Fate(s.Core.M, l, localedit.RootKnows(s.Core.M)); f != localedit.Stands {
				t.Fatalf("seed %d: a change is kept that does not stand: %s", seed, why)
			}
		}
		before := s.Dump()
		s.Reopen()
		s.Settle()
		if after := s.Dump(); after != before {
			t.Fatalf("seed %d: a restart changed\n%s into\n%s", seed, before, after)
		}
	}
}

// A site goes by what the root has said of who may publish which host, also where nothing
// of the namespace runs there, and after a restart.
func TestASiteKeepsToTheHostsOfNamespaces(t *testing.T) {
	s := clustertest.NewSite(t)
	take := func(full bool, changes ...wire.Change) {
		t.Helper()
		s.Rev++
		if err := uplink.FromRoot(s.Core).Take(t.Context(), full, changes, wire.Rev{Inc: "root", N: s.Rev},
			nil); err != nil {
			t.Fatal(err)
		}
		s.Settle()
	}
	far := wire.Route{V: wire.Version, App: "far", Namespace: "theirs", Service: "web", Policy: "round-robin",
		Ports: []api.Port{{Name: "http", Protocol: "http", Ingress: &api.Ingress{Host: "b.test"}}}}
	take(true, wire.Change{Key: "publish.shop", Value: clustertest.JSON(t,
		wire.Publish{V: wire.Version, Hosts: "*.shop.test"})},
		wire.Change{Key: "publish.theirs",
			Value: clustertest.JSON(t, wire.Publish{V: wire.Version, Hosts: "c.test", Ports: "5432"})},
		wire.Change{Key: "route.far.web", Value: clustertest.JSON(t, far)})
	descriptor := func(namespace, ingress string) []byte {
		return fmt.Appendf(nil, "application: own\nnamespace: %s\nservices: {web: {command: [x], ports: [{name: "+
			"p, protocol: %s, number: 80, ingress: {%s}}]}}\n",
			namespace, map[bool]string{true: "http", false: "tcp"}[strings.HasPrefix(ingress, "host")], ingress)
	}
	apply := func(namespace, ingress string) string {
		t.Helper()
		_, err := edits.ApplyLocal(t.Context(), s.Core, descriptor(namespace, ingress), true, s.Now)
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
	again := state.NewModel("c", true, s.Now)
	if err := core.Read(t.Context(), again, s.Store, s.Now); err != nil {
		t.Fatal(err)
	}
	if len(again.Publish()) != 2 || again.Publish()["shop"].Hosts != "*.shop.test" {
		t.Errorf("after a restart: %+v", again.Publish())
	}
	take(false, wire.Change{Key: "publish.shop", Deleted: true})
	if got := apply("mine", "host: a.shop.test"); got != "" {
		t.Errorf("what nobody has any more: %q", got)
	}
	take(true)
	if got := apply("mine", "host: c.test"); got != "" || len(s.Core.M.Publish()) != 0 {
		t.Errorf("all was told anew: %q, %+v", got, s.Core.M.Publish())
	}
}

// A wildcard that was made here yields to a host that the root gives to another namespace.
func TestAWildcardYieldsToARootsHost(t *testing.T) {
	s := clustertest.NewSite(t)
	s.ApplyLocal([]byte("application: own\nnamespace: mine\nservices: {web: {command: [x], ports: [{name: http, " +
		"ingress: {host: '*.web.test'}}]}}\n"))
	if s.Core.M.Routes["own.web"].Ports[0].Ingress == nil {
		t.Fatal("it is not published")
	}
	s.Give(clustertest.Web(1, "a"), 1)
	if s.Core.M.Routes["own.web"].Ports[0].Ingress != nil || s.Core.M.Routes["app.web"].Ports[0].Ingress == nil {
		t.Error("the wildcard is published beside the other namespace's host")
	}
	if p := localedit.LostHosts(s.Core.M); len(p) != 1 || !strings.Contains(p[0], "own.web") {
		t.Errorf("problems: %v", p)
	}
}

func TestALocalEditRollsAndGivesWay(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	r := s.ApplyLocal(clustertest.Web(2, "mine"))
	if r.Change != "updated" || r.Revision < wire.LocalRevisions {
		t.Errorf("%+v", r)
	}
	s.WantRunning("edited", map[string]string{"app.web.0": "mine", "app.web.1": "mine"})
	if again := s.ApplyLocal(clustertest.Web(2, "mine")); again.Change != "unchanged" || again.Revision != r.Revision {
		t.Errorf("the same again: %+v", again)
	}
	before := s.Starts()
	s.ApplyLocal(clustertest.Web(3, "mine"))
	s.WantRunning("and scaled", map[string]string{"app.web.0": "mine", "app.web.1": "mine", "app.web.100000": "mine"})
	if n := s.Starts() - before; n != 1 {
		t.Errorf("%d starts for one more, want 1", n)
	}
	s.Give(clustertest.Web(2, "b"), 2)
	s.WantRunning("overruled", map[string]string{"app.web.0": "b", "app.web.1": "b"})
	c := localedit.Views(s.Core.M, "").Conflicts
	if len(c) != 1 || c[0].Change != "scaled 2 → 3; changed env" || c[0].RootRevision != 2 {
		t.Fatalf("conflicts: %+v", c)
	}
	view, err := (&backend.Backend{Core: s.Core}).LocalChanges(t.Context())
	if err != nil || view.Conflicts[0].Spec == nil || view.Conflicts[0].Spec.Env["MARK"] != "mine" {
		t.Errorf("what it was is not to be had any more: %+v, %v", view, err)
	}
	if localedit.UpConflictTable.Rows(s.Core.M.DB)[c[0].ID].Spec != nil {
		t.Error("the root is told the whole of it")
	}
}
