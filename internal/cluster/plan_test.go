package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/wire"
)

// everything is all that a cluster knows and has stored, as text.
func (s *site) everything() string {
	s.t.Helper()
	entries, err := s.store.List(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	b, err := json.Marshal([]any{entries, s.store.Rev(), s.c.m.Have(), s.c.lost.at, s.c.events.After(s.t.Context(), 0, 0)})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.c.m.all() + string(b)
}

// question is the root's for app with so many instances here.
func (s *site) question(source []byte, here int) *wire.PlanAsk {
	s.t.Helper()
	q := &wire.PlanAsk{App: "app"}
	if source != nil {
		spec, _, err := descriptor.Parse("", source)
		if err != nil {
			s.t.Fatal(err)
		}
		for name, svc := range spec.Services {
			q.Shares = append(q.Shares, wire.Share{V: wire.Version, App: "app", Service: name, Revision: s.rev + 1, Min: here, Max: here, Spec: svc, Ordinals: []wire.Span{{To: here}}})
		}
	}
	return q
}

// ask is the answer to question; nothing else may come of it.
func (s *site) ask(source []byte, here int) wire.SitePlan {
	s.t.Helper()
	q := s.question(source, here)
	before := s.everything()
	got, err := s.c.planShares(s.t.Context(), q, 0, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	if after := s.everything(); after != before {
		s.t.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	return got
}

func actions(list []wire.InstancePlan) string {
	var out []string
	for _, p := range list {
		out = append(out, strings.TrimPrefix(p.ID, "app.web.")+" "+p.Action)
	}
	return strings.Join(out, ", ")
}

// what runs, where and in which incarnation.
func (s *site) running() map[string]string {
	out := map[string]string{}
	for id, i := range s.c.m.Insts {
		if placed(i) {
			out[id] = fmt.Sprint(i.Worker, i.Incarnation)
		}
	}
	return out
}

// What a cluster says that it would do is what it does.
func TestAPlanIsWhatIsDone(t *testing.T) {
	s := newSite(t)
	s.settle()
	for _, step := range []struct {
		source []byte
		here   int
		want   string
	}{
		{web(2, "a"), 2, "0 start, 1 start"},
		{web(2, "a"), 2, "0 keep, 1 keep"},
		{web(3, "b"), 3, "0 restart, 1 restart, 2 start"},
		{[]byte(strings.Replace(string(web(3, "b")), "command: [x]", "command: [x]\n    on_return: replacement", 1)), 3, "0 keep, 1 keep, 2 keep"},
		{web(1, "b"), 1, "1 stop, 2 stop, 0 keep"},
		{nil, 0, "0 stop"},
		{[]byte(strings.Replace(string(web(3, "b")), "command: [x]", "command: [x]\n    anti_affinity: {service: [web]}", 1)), 3, "0 start, 1 start, 2 wait"},
	} {
		plan := s.ask(step.source, step.here)
		if got := actions(plan.Instances); got != step.want {
			t.Fatalf("%s: %s, want %s", step.source, got, step.want)
		}
		was := s.running()
		s.give(step.source, step.here)
		is := s.running()
		for _, p := range plan.Instances {
			before, after := was[p.ID], is[p.ID]
			there := len(before) > 1 && len(after) > 1 && before[:2] == after[:2] // the same worker
			same := map[string]bool{
				wire.PlanKeep: before == after && after != "", wire.PlanStart: before == "" && after != "", wire.PlanWait: after == "", wire.PlanStop: after == "",
				wire.PlanRestart: before != after && there, wire.PlanMove: before != "" && after != "" && !there,
			}
			if !same[p.Action] {
				t.Errorf("%s was to %s, and went from %q to %q", p.ID, p.Action, before, after)
			}
			if p.To != "" && p.To != "edge/"+s.c.m.Insts[p.ID].Worker {
				t.Errorf("%s was to be on %s, and is on %s", p.ID, p.To, s.c.m.Insts[p.ID].Worker)
			}
			if p.Action == wire.PlanWait && (p.Why == "" || !strings.Contains(s.c.m.Insts[p.ID].Reason, p.Why)) {
				t.Errorf("%s was to wait because %q, and waits because %q", p.ID, p.Why, s.c.m.Insts[p.ID].Reason)
			}
			if (p.Action == wire.PlanStart || p.Action == wire.PlanWait) && len(p.Decisions) != 1 {
				t.Errorf("no decision about %s", p.ID)
			}
		}
	}
	if p := s.ask(web(2, "a"), 2); len(p.Instances) != 3 { // app.web.2 ends, and waits
		t.Errorf("%+v", p.Instances)
	}
}

// A worker that is named differently or that may not be seen is not named.
func TestAPlanKeepsDetailsToItself(t *testing.T) {
	s := newSite(t)
	s.c.m.Details = false
	s.give(web(1, "a"), 1)
	for _, p := range s.ask(web(2, "b"), 2).Instances {
		if p.To != "edge" || p.From != "" && p.From != "edge" || len(p.Decisions) > 0 {
			t.Errorf("%+v", p)
		}
	}
	if _, err := s.c.answer(t.Context(), wire.Ask{What: wire.AskPlan, Plan: &wire.PlanAsk{App: "app"}}); err != nil {
		t.Error(err)
	}
	for _, q := range []*wire.PlanAsk{nil, {}, {App: "app", Shares: []wire.Share{{App: "app", Service: "web"}}}, {App: "app", Shares: []wire.Share{{App: "else", Service: "web", Spec: &api.Service{}}}}} {
		var p *wire.Problem
		if _, err := s.c.planShares(t.Context(), q, 0, s.now); !errors.As(err, &p) || p.Status != 400 {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// A plan at the site does what an apply there would.
func TestAPlanAtTheSite(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	before := s.everything()
	p, err := s.c.planLocal(t.Context(), web(3, "mine"), s.now)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.c.applyLocal(t.Context(), web(3, "mine"), true, s.now)
	if err != nil || r.Change != "updated" || r.Changes != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if after := s.everything(); after != before {
		t.Fatalf("a plan has changed something:\n%s\n%s", before, after)
	}
	if got := actions(p.Instances); got != "0 restart, 1 restart, 100000 start" {
		t.Error(got)
	}
	if p.Restarts != 2 || p.Starts != 1 || !p.Placed || p.Source != "cluster/edge" || p.Change != "updated" || p.Changes != 1 {
		t.Errorf("%+v", p)
	}
	if sp := p.Services[0]; sp.Change != wire.ServiceChanged || sp.From != 2 || sp.To != 3 || sp.Effect != "2 instances restart, 1 starts" || !sp.Restarts {
		t.Errorf("%+v", sp)
	}
	done := s.apply(web(3, "mine"))
	if done.Revision != p.Revision || startedAnew(s.c.m) != 2 {
		t.Errorf("%+v, %d were started anew", done, startedAnew(s.c.m))
	}
	// The same again changes nothing; what is refused is refused.
	if p, err = s.c.planLocal(t.Context(), web(3, "mine"), s.now); err != nil || p.Change != "unchanged" || p.Restarts+p.Starts+p.Stops != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := s.c.planLocal(t.Context(), []byte("application: app\nnamespace: other\nservices: {web: {command: [x]}}\n"), s.now); err == nil {
		t.Error("it would change its namespace")
	}
	s.c.onUpReply(nil)
	var problem *wire.Problem
	if _, err := s.c.planLocal(t.Context(), web(1, "a"), s.now); !errors.As(err, &problem) || problem.Code != "root-connected" {
		t.Errorf("%v", err)
	}
}

// What a suspect worker has is not waited for, and what it would do not made up.
func TestAPlanWithAWorkerAway(t *testing.T) {
	s := newSite(t)
	s.give(web(2, "a"), 2)
	away := s.c.m.Insts["app.web.0"].Worker
	s.fakes[away].linked = false
	s.now = s.now.Add(time.Second)
	s.fakes[away].act(s.sim, away)
	p := s.ask(web(2, "b"), 2)
	for _, i := range p.Instances {
		if s.c.m.Insts[i.ID].Worker != away {
			continue
		}
		if i.Action != wire.PlanWait || i.Why == "" {
			t.Errorf("%+v", i)
		}
	}
}
