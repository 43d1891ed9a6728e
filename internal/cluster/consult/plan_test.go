package consult_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/planner"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// planOf is what the root is told of two instances of app.web that a plugin places.
func planOf(c *core.Core, t *testing.T, change func(*api.Service)) rpc.SitePlan {
	t.Helper()
	spec := &api.Service{Runtime: "process", Command: []string{"x"}, Scheduler: "plugin", Plugin: "sage",
		Spread: "soft", Resources: api.Resources{CPU: 400, Memory: 1 << 20, Disk: 1 << 20}}
	if change != nil {
		change(spec)
	}
	heardAll(c)
	out, err := planner.PlanShares(t.Context(), c, &rpc.PlanAsk{App: "app", Shares: []wire.Share{{
		V: wire.Version, App: "app", Service: "web", Revision: 1, Min: 2, Max: 2, Ordinals: []wire.Span{{To: 2}},
		Spec: spec,
	}}}, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A plan asks the plugin, says so to it, shows what it decides, and leaves nothing behind.
func TestAPlanAsksThePlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []plugin.Question
		c := advisedCore(t, func(_ context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
			got = append(got, q)
			return one(q, plugin.Verdict{Placements: map[string]string{"app.web.0": "w2", "app.web.1": "w1"}})
		}, "w1", "w2")
		p := planOf(c, t, nil)
		if len(got) != 1 || !got[0].Plan || got[0].DeadlineMs > 1000 || len(got[0].Service.Instances) != 2 {
			t.Fatalf("asked %+v", got)
		}
		if len(p.Instances) != 2 || p.Instances[0].Action != rpc.PlanStart || p.Instances[0].To != "edge/w2" ||
			p.Instances[1].To != "edge/w1" || len(p.Notes) != 0 {
			t.Errorf("%+v", p)
		}
		if len(advisor.Memory(c.M).Inquiries) != 0 || len(c.M.Insts) != 0 {
			t.Errorf("it left %v, %v", advisor.Memory(c.M).Inquiries, c.M.Insts)
		}
	})
}

// One that fails is replaced in a plan by rom, as it would be; one that takes longer than
// a plan, and may, leaves its instances waiting in it, and a note says why. Neither makes
// it rest.
func TestAPlanAndAPluginThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		asked := 0
		c := advisedCore(t, func(ctx context.Context, _ plugin.Question) (map[string]plugin.Verdict, error) {
			if asked++; err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
		}, "w1", "w2")
		for range 5 {
			p := planOf(c, t, nil)
			if len(p.Instances) != 2 || p.Instances[0].Action != rpc.PlanWait ||
				p.Instances[0].Why != "asked plugin sage for a worker" ||
				len(p.Notes) != 1 || !strings.HasPrefix(p.Notes[0],
				"plugin sage did not answer in the time of a plan; an apply would wait for it for 2s") {
				t.Fatalf("%+v", p)
			}
		}
		soon := api.Duration(300 * time.Millisecond)
		if p := planOf(c, t, func(s *api.Service) { s.ConvergenceTime = &soon }); p.Instances[0].Action != rpc.PlanStart ||
			len(p.Notes) != 0 {
			t.Errorf("one that is late in any case: %+v", p)
		}
		err = &plugin.Error{Class: plugin.Unreachable, Text: "it cannot be reached"}
		if p := planOf(c, t, nil); p.Instances[0].Action != rpc.PlanStart || len(p.Notes) != 0 {
			t.Errorf("one that cannot be reached: %+v", p)
		}
		if asked != 7 || advisor.Memory(c.M).Breakers["sage"] != (plugin.Breaker{}) ||
			figure(c, "verge_plugin_calls_total") != 0 {
			t.Errorf("asked %d times, %+v", asked, advisor.Memory(c.M).Breakers)
		}
	})
}
