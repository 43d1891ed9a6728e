package rehearsal_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/wire/rpc"
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
		"in turn": {nil, map[string]int{rpc.PlanStart: 2, rpc.PlanLater: 3},
			"it waits for its turn: 2 of its job run at a time"},
		"suspended": {func(v *api.Service) { v.Job.Suspend = true }, map[string]int{rpc.PlanLater: 5},
			"its job is suspended"},
		"by schedule": {func(v *api.Service) { v.Cron = &nightly }, map[string]int{rpc.PlanLater: 5},
			"its schedule says next: "},
		"without room": {func(v *api.Service) { v.Resources.CPU = 1 << 20 },
			map[string]int{rpc.PlanWait: 2, rpc.PlanLater: 3}, ""},
	} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Ticks(2, time.Second)
		s.Job(5, c.change)
		m := s.Model.Clone()
		whys, whole := rehearsal.Rehearse(t.Context(), m, nil, s.Now)
		if !whole {
			t.Fatalf("%s: it was cut off", name)
		}
		p := apiv1.Plan{Services: []apiv1.ServicePlan{{Name: "task", Change: apiv1.ServiceAdded}},
			Instances: rehearsal.Becomes(m, "app", nil, whys, true, s.Now)}
		got, why := map[string]int{}, ""
		for _, i := range p.Instances {
			if got[i.Action]++; i.Action == rpc.PlanLater {
				why = i.Why
			}
		}
		if !maps.Equal(got, c.want) || !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: %v, because %q, want %v", name, got, why, c.want)
		}
		plan.Close(&p)
		if p.Placed != (c.want[rpc.PlanWait] == 0) ||
			!strings.Contains(p.Services[0].Effect, fmt.Sprintf("%d ", got[rpc.PlanLater])) ||
			!strings.Contains(p.Services[0].Effect, "later") {
			t.Errorf("%s: placed %v, %q", name, p.Placed, p.Services[0].Effect)
		}
	}
}
