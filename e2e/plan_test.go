package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// applied is what apply -o json says.
type applied struct {
	Holds    bool
	Restarts int
	Changes  int
	Plan     *apiv1.Plan
}

// TestPlanAndApply compares what plans say with what applies do, and looks whether
// plans leave anything behind.
func TestPlanAndApply(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge", "fog")
	audits := func() string { return w.root.ok("audit", "--limit", "0", "-o", "json") }
	state := func() string {
		out := w.root.ok("events", "-o", "json") + audits()
		is := w.root.instances("")
		for _, id := range slices.Sorted(maps.Keys(is)) {
			i := is[id]
			out += fmt.Sprintln(i.ID, i.Cluster, i.Worker, i.Incarnation, i.Revision, i.State)
		}
		for _, x := range []*tier{w.cluster["edge"], w.cluster["fog"]} {
			out += x.ok("events", "-o", "json")
		}
		return out
	}
	plan := func(descriptor string, code int) apiv1.Plan {
		t.Helper()
		before := state()
		r := verge(t, w.root.contextFile(), "plan", "-o", "json", w.file("app-", descriptor))
		wantEqual(t, "exit code of plan\n"+r.out+r.err, r.code, code)
		if after := state(); after != before {
			t.Errorf("a plan has left something behind:\n%s\n%s", before, after)
		}
		if code == 1 {
			return apiv1.Plan{}
		}
		return decode[apiv1.Plan](t, r.out)
	}
	follow := func(what string, descriptor string, restarts, changes int) apiv1.Plan {
		t.Helper()
		p := plan(descriptor, 0)
		for _, s := range p.Sites {
			if !s.Asked {
				t.Errorf("%s: cluster %s was not asked: %s", what, s.Cluster, s.Why)
			}
		}
		did := decode[applied](t, w.root.ok("apply", "-o", "json", "--timeout", "1m", w.file("app-", descriptor)))
		wantEqual(t, what+": restarts planned", p.Restarts, restarts)
		wantEqual(t, what+": restarts counted", did.Restarts, 0) // an update is none
		wantEqual(t, what+": changes planned", p.Changes, changes)
		wantEqual(t, what+": changes done", did.Changes, changes)
		is := w.root.instances("shop")
		for _, i := range p.Instances {
			v, there := is[i.ID]
			switch i.Action {
			case rpc.PlanStop:
				if there && !v.Draining {
					t.Errorf("%s: %s was to stop, and is %s", what, i.ID, v.State)
				}
			default:
				wantEqual(t, what+": "+i.ID+" was to "+i.Action+" at", v.Cluster+"/"+v.Worker, i.To)
			}
		}
		return p
	}
	eventually(t, 20*time.Second, "the root knows what the clusters have", func() error {
		for _, c := range must[[]apiv1.ClusterView](t)(w.root.client().Clusters.List(t.Context())) {
			if c.Aggregate == nil || c.Aggregate.Workers != 2 || len(c.Aggregate.Runtimes) == 0 {
				return fmt.Errorf("cluster %s: %+v", c.Name, c.Aggregate)
			}
		}
		return nil
	})
	p := follow("new", shopOf(3, "1"), 0, 1)
	for _, i := range p.Instances {
		if len(i.Decisions) != 2 || i.Decisions[0].Tier != "root" {
			t.Errorf("%s has %d decisions", i.ID, len(i.Decisions))
		}
	}
	follow("the same", shopOf(3, "1"), 0, 0)
	pids := w.pids("shop")
	follow("terms", strings.Replace(shopOf(3, "1"), "replace_after: 3s", "replace_after: 4s", 1), 0, 1)
	for id, pid := range w.pids("shop") {
		wantEqual(t, "process of "+id, pid, pids[id])
	}
	if p := follow("program", shopOf(3, "2"), 3, 1); p.Services[0].Effect != "3 instances restart" {
		t.Errorf("%+v", p.Services)
	}
	if p := follow("scaled up", shopOf(4, "2"), 0, 1); p.Starts != 1 || p.Services[0].Effect != "1 instance starts" {
		t.Errorf("%+v", p.Services)
	}
	follow("scaled down", shopOf(1, "2"), 0, 1)
	if text := w.root.ok("status"); !strings.Contains(text, "application/shop: 0 restarts, 5 changes applied") {
		t.Errorf("status says\n%s", text)
	}

	t.Log("what cannot be placed, and what is refused")
	huge := strings.Replace(shopOf(1, "2"), "replace_after", "resources: {memory: 64Gi}\n    replace_after", 1)
	if p := plan(strings.Replace(huge, "application: shop", "application: huge", 1), 1); p.Placed { // its host is taken
		t.Errorf("%+v", p)
	}
	if p := plan(strings.ReplaceAll(strings.Replace(huge, "application: shop", "application: huge", 1), shopHost, "huge.test"), 2); p.Waits != 1 || !strings.Contains(p.Instances[0].Why, "64Gi") {
		t.Errorf("%+v", p.Instances)
	}
	r := verge(t, w.root.contextFile(), "apply", "--dry-run", w.file("app-", shopOf(2, "3")))
	if r.code != 0 || !strings.Contains(r.out, "application/shop would be updated (dry run), revision 6") || !strings.Contains(r.out, "1 restart, 1 start, 0 stops; all would be placed") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}

	t.Log("a cluster that does not answer")
	home := ""
	for _, i := range w.root.instances("shop") {
		home = i.Cluster
	}
	w.cluster[home].kill()
	r = verge(t, w.root.contextFile(), "plan", "-o", "json", w.file("app-", shopOf(1, "3")))
	wantEqual(t, "exit code", r.code, 0)
	away := decode[apiv1.Plan](t, r.out)
	if len(away.Sites) == 0 || away.Sites[0].Asked || away.Sites[0].Why == "" || away.Sites[0].AgeSeconds < 0 || away.Restarts != 1 {
		t.Errorf("%+v", away)
	}
	w.cluster[home].start()
	w.cluster[home].answers()
	w.allReady()

	t.Log("at a site")
	w.root.kill()
	site := w.cluster[home]
	site.away()
	r = verge(t, site.contextFile(), "plan", "-o", "json", w.file("app-", shopOf(2, "here")))
	wantEqual(t, "exit code of a plan at the site\n"+r.err, r.code, 0)
	local := decode[apiv1.Plan](t, r.out)
	did := decode[applied](t, site.ok("apply", "-o", "json", "--timeout", "1m", w.file("app-", shopOf(2, "here"))))
	if local.Source != "cluster/"+home || local.Restarts != 1 || did.Restarts != 0 || local.Starts != 1 || local.Changes != did.Changes {
		t.Errorf("%+v, and done was %+v", local, did)
	}
	is := site.instances("shop")
	for _, i := range local.Instances {
		wantEqual(t, i.ID+" was to "+i.Action+" at", is[i.ID].Cluster+"/"+is[i.ID].Worker, i.To)
	}
	eventually(t, 10*time.Second, "the site says what it counted", func() error {
		if text := site.ok("status"); !strings.Contains(text, "Since the root was lost:") || !strings.Contains(text, "ago: 0 restarts, 1 change applied") {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}
