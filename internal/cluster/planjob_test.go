// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/wire"
)

// What of a job starts later lacks no place: its turn, or its time, has not come. What has
// no place still waits for one.
func TestAPlanOfAJob(t *testing.T) {
	nightly := api.Cron{Schedule: "0 3 * * *", Zone: "UTC", Concurrency: api.CronForbid, Missed: api.MissedOnce}
	for name, c := range map[string]struct {
		change func(*api.Service)
		want   map[string]int
		why    string
	}{
		"in turn":      {nil, map[string]int{wire.PlanStart: 2, wire.PlanLater: 3}, "it waits for its turn: 2 of its job run at a time"},
		"suspended":    {func(v *api.Service) { v.Job.Suspend = true }, map[string]int{wire.PlanLater: 5}, "its job is suspended"},
		"by schedule":  {func(v *api.Service) { v.Cron = &nightly }, map[string]int{wire.PlanLater: 5}, "its schedule says next: "},
		"without room": {func(v *api.Service) { v.Resources.CPU = 1 << 20 }, map[string]int{wire.PlanWait: 2, wire.PlanLater: 3}, ""},
	} {
		s := newSim(t, "w1", "w2")
		s.ticks(2, time.Second)
		s.job(5, c.change)
		m := s.m.clone()
		whys, whole := m.rehearse(t.Context(), nil, s.now)
		if !whole {
			t.Fatalf("%s: it was cut off", name)
		}
		p := wire.Plan{Services: []wire.ServicePlan{{Name: "task", Change: wire.ServiceAdded}}, Instances: m.becomes("app", nil, whys, true, s.now)}
		got, why := map[string]int{}, ""
		for _, i := range p.Instances {
			if got[i.Action]++; i.Action == wire.PlanLater {
				why = i.Why
			}
		}
		if !maps.Equal(got, c.want) || !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: %v, because %q, want %v", name, got, why, c.want)
		}
		plan.Close(&p)
		if p.Placed != (c.want[wire.PlanWait] == 0) || !strings.Contains(p.Services[0].Effect, fmt.Sprintf("%d ", got[wire.PlanLater])) || !strings.Contains(p.Services[0].Effect, "later") {
			t.Errorf("%s: placed %v, %q", name, p.Placed, p.Services[0].Effect)
		}
	}
}
