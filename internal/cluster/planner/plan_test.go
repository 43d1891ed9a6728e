package planner_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/planner"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// what runs, where and in which incarnation.
func running(s *clustertest.Site) map[string]string {
	out := map[string]string{}
	for id, i := range s.Core.M.Insts {
		if rehearsal.Placed(i) {
			out[id] = fmt.Sprint(i.Worker, i.Incarnation)
		}
	}
	return out
}

// What a cluster says that it would do is what it does.
func TestAPlanIsWhatIsDone(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Settle()
	for _, step := range []struct {
		source []byte
		here   int
		want   string
	}{
		{clustertest.Web(2, "a"), 2, "0 start, 1 start"},
		{clustertest.Web(2, "a"), 2, "0 keep, 1 keep"},
		{clustertest.Web(3, "b"), 3, "0 restart, 1 restart, 2 start"},
		{[]byte(strings.Replace(string(clustertest.Web(3, "b")), "command: [x]", "command: [x]\n    on_return: replacement",
			1)),
			3, "0 keep, 1 keep, 2 keep"},
		{clustertest.Web(1, "b"), 1, "1 stop, 2 stop, 0 keep"},
		{nil, 0, "0 stop"},
		{[]byte(strings.Replace(string(clustertest.Web(3, "b")), "command: [x]",
			"command: [x]\n    anti_affinity: {service: [web]}", 1)), 3, "0 start, 1 start, 2 wait"},
	} {
		plan := s.Plan(step.source, step.here)
		if got := clustertest.Actions(plan.Instances); got != step.want {
			t.Fatalf("%s: %s, want %s", step.source, got, step.want)
		}
		was := running(s)
		s.Give(step.source, step.here)
		is := running(s)
		for _, p := range plan.Instances {
			before, after := was[p.ID], is[p.ID]
			there := len(before) > 1 && len(after) > 1 && before[:2] == after[:2] // the same worker
			same := map[string]bool{
				rpc.PlanKeep: before == after && after != "", rpc.PlanStart: before == "" &&
					after != "", rpc.PlanWait: after == "", rpc.PlanStop: after == "",
				rpc.PlanRestart: before != after && there, rpc.PlanMove: before != "" && after != "" && !there,
			}
			if !same[p.Action] {
				t.Errorf("%s was to %s, and went from %q to %q", p.ID, p.Action, before, after)
			}
			if p.To != "" && p.To != "edge/"+s.Core.M.Insts[p.ID].Worker {
				t.Errorf("%s was to be on %s, and is on %s", p.ID, p.To, s.Core.M.Insts[p.ID].Worker)
			}
			if p.Action == rpc.PlanWait && (p.Why == "" || !strings.Contains(s.Core.M.Insts[p.ID].Reason, p.Why)) {
				t.Errorf("%s was to wait because %q, and waits because %q", p.ID, p.Why, s.Core.M.Insts[p.ID].Reason)
			}
			if (p.Action == rpc.PlanStart || p.Action == rpc.PlanWait) && len(p.Decisions) != 1 {
				t.Errorf("no decision about %s", p.ID)
			}
		}
	}
	if p := s.Plan(clustertest.Web(2, "a"), 2); len(p.Instances) != 3 { // app.web.2 ends, and waits
		t.Errorf("%+v", p.Instances)
	}
}

// A worker that is named differently or that may not be seen is not named.
func TestAPlanKeepsDetailsToItself(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Core.M.Details = false
	s.Give(clustertest.Web(1, "a"), 1)
	for _, p := range s.Plan(clustertest.Web(2, "b"), 2).Instances {
		if p.To != "edge" || p.From != "" && p.From != "edge" || len(p.Decisions) > 0 {
			t.Errorf("%+v", p)
		}
	}
	if _, err := answer.Answer(t.Context(), s.Core,
		rpc.Ask{What: rpc.AskPlan, Plan: &rpc.PlanAsk{App: "app"}}); err != nil {
		t.Error(err)
	}
	for _, q := range []*rpc.PlanAsk{nil, {}, {App: "app", Shares: []wire.Share{{App: "app", Service: "web"}}},
		{App: "app", Shares: []wire.Share{{App: "else", Service: "web", Spec: &api.Service{}}}}} {
		var p *wire.Problem
		if _, err := planner.PlanShares(t.Context(), s.Core, q, 0, s.Now); !errors.As(err, &p) || p.Status != 400 {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// A plan at the site does what an apply there would.
func TestAPlanAtTheSite(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	before := s.Everything()
	p, err := planner.PlanLocal(t.Context(), s.Core, clustertest.Web(3, "mine"), s.Now)
	if err != nil {
		t.Fatal(err)
	}
	r, err := edits.ApplyLocal(t.Context(), s.Core, clustertest.Web(3, "mine"), true, s.Now)
	if err != nil || r.Change != "updated" || r.Changes != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if after := s.Everything(); after != before {
		t.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	if got := clustertest.Actions(p.Instances); got != "0 restart, 1 restart, 100000 start" {
		t.Error(got)
	}
	if p.Restarts != 2 || p.Starts != 1 || !p.Placed || p.Source != "cluster/edge" || p.Change != "updated" ||
		p.Changes != 1 {
		t.Errorf("%+v", p)
	}
	if sp := p.Services[0]; sp.Change != apiv1.ServiceChanged || sp.From != 2 || sp.To != 3 ||
		sp.Effect != "2 instances restart, 1 starts" || !sp.Restarts {
		t.Errorf("%+v", sp)
	}
	done := s.ApplyLocal(clustertest.Web(3, "mine"))
	if done.Revision != p.Revision || clustertest.Restarts(s.Core.M) != 2 {
		t.Errorf("%+v, %d were started anew", done, clustertest.Restarts(s.Core.M))
	}
	// The same again changes nothing; what is refused is refused.
	if p, err = planner.PlanLocal(t.Context(), s.Core, clustertest.Web(3, "mine"), s.Now); err != nil ||
		p.Change != "unchanged" ||
		p.Restarts+p.Starts+p.Stops != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := planner.PlanLocal(t.Context(), s.Core,
		[]byte("application: app\nnamespace: other\nservices: {web: {command: [x]}}\n"), s.Now); err == nil {
		t.Error("it would change its namespace")
	}
	uplink.OnUpReply(s.Core, nil)
	var problem *wire.Problem
	if _, err := planner.PlanLocal(t.Context(), s.Core, clustertest.Web(1, "a"), s.Now); !errors.As(err, &problem) ||
		problem.Code != "root-connected" {
		t.Errorf("%v", err)
	}
}

// What a suspect worker has is not waited for, and what it would do not made up.
func TestAPlanWithAWorkerAway(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Give(clustertest.Web(2, "a"), 2)
	away := s.Core.M.Insts["app.web.0"].Worker
	s.Workers[away].Linked = false
	s.Now = s.Now.Add(time.Second)
	s.Workers[away].Act(s.Sim, away)
	p := s.Plan(clustertest.Web(2, "b"), 2)
	for _, i := range p.Instances {
		if s.Core.M.Insts[i.ID].Worker != away {
			continue
		}
		if i.Action != rpc.PlanWait || i.Why == "" {
			t.Errorf("%+v", i)
		}
	}
}
