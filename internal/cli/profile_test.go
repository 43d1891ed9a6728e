package cli

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// profiler is a world in which services are kept busy; it takes no time.
type profiler struct {
	mu    sync.Mutex // guards below: steps come from handlers
	steps []string
	kept  bool
	fails bool
}

func (p *profiler) world() *resttest.Fake {
	f := world()
	f.ExecStep = func(_ context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if q.Do != rpc.ExecDoProfile || q.Profile == nil {
			return rpc.ExecAnswer{}, wire.Problemf(400, "odd", "", "another step was meant", "%s", q.Do)
		}
		p.steps = append(p.steps, q.Profile.Do)
		r := &rpc.ProfileReport{V: wire.Version, App: q.Profile.App, Service: q.Profile.Service,
			Nodes: []rpc.ProfileNode{}}
		const ms = api.Duration(time.Millisecond)
		measured := []rpc.ProfileNode{
			{Cluster: "edge", Worker: "w1", Instances: 2, Requests: 12000, Errors: 3, Span: 60000 * ms, Rate: 200,
				Mean: 50 * ms, P50: 48 * ms, P99: 91 * ms},
			{Cluster: "fog", Worker: "w1", Instances: 1, Requests: 30, Span: 60000 * ms, Rate: 0.5, Mean: 1950 * ms,
				P50: 2000 * ms, P99: 2100 * ms},
			{Cluster: "fog", Worker: "w2", Instances: 1, Problem: "worker w2 does not answer"},
		}
		switch {
		case q.Profile.Do == rpc.ProfileForget, q.Profile.Do == rpc.ProfileEnd:
			p.kept = false
		case q.Profile.Do == rpc.ProfileShow && !p.kept:
		case q.Profile.Do == rpc.ProfileShow:
			r.Stored = true
			for i, from := range []string{rpc.WeightProfile, rpc.WeightOld, rpc.WeightCPU} {
				n := measured[i]
				n.From, n.Problem = from, ""
				if n.At, n.By = ago(time.Hour), "user/ann"; from == rpc.WeightCPU {
					n.Rate, n.At, n.By = 25, time.Time{}, ""
				}
				n.Old = from == rpc.WeightOld
				r.Nodes = append(r.Nodes, n)
			}
			same := measured[0]
			r.Nodes = append(r.Nodes,
				rpc.ProfileNode{Cluster: "edge", Worker: "w3", Instances: 1, Rate: same.Rate / 2, From: rpc.WeightKind})
		case p.fails:
			r.State, r.Why, r.Nodes = rpc.ProfileFailed,
				"more than half of the requests failed: guestbook.front.0 answered 404 Not Found", measured[1:2]
			r.Nodes[0].Requests, r.Nodes[0].Rate, r.Nodes[0].Errors, r.Nodes[0].Problem = 0, 0, 41,
				"guestbook.front.0 answered 404 Not Found"
		default:
			r.State, r.Nodes = rpc.ProfileDone, measured
			r.Took, r.Whole = 66000*ms, 66000*ms
			r.Stored = q.Profile.Do == rpc.ProfileKeep
			p.kept = p.kept || r.Stored
		}
		return rpc.ExecAnswer{Profile: r}, nil
	}
	return f
}

func TestProfileGolden(t *testing.T) {
	for name, c := range map[string]struct {
		line        string
		kept, fails bool
		steps       string
	}{
		"profile":           {line: "profile guestbook.front", steps: "start keep"},
		"profile-json":      {line: "profile guestbook.front --for 10s -o json", steps: "start keep"},
		"profile-dry-run":   {line: "profile guestbook.front --path /x?q=1 --dry-run", steps: "start end"},
		"profile-failed":    {line: "profile guestbook.front", fails: true, steps: "start end"},
		"profile-show":      {line: "profile guestbook.front --show", kept: true, steps: "show"},
		"profile-show-json": {line: "profile guestbook.front --show -o json", kept: true, steps: "show"},
		"profile-show-none": {line: "profile guestbook.front --show", steps: "show"},
		"profile-forget":    {line: "profile guestbook.front --forget", kept: true, steps: "forget"},
		"profile-long":      {line: "profile guestbook.front --for 11m"},
		"profile-path":      {line: "profile guestbook.front --path x"},
		"profile-both":      {line: "profile guestbook.front --show --forget"},
		"profile-nothing":   {line: "profile guestbook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &profiler{kept: c.kept, fails: c.fails}
			f := newFixture(t, p.world())
			args := strings.Fields(c.line)
			f.golden(name, f.run(args...), args...)
			p.mu.Lock()
			defer p.mu.Unlock()
			if got := strings.Join(p.steps, " "); got != c.steps {
				t.Errorf("steps %q, want %q", got, c.steps)
			}
		})
	}
}
