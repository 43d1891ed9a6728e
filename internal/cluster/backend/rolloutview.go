package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// Rollout implements rest.Backend: the part of it that is here.
func (b *Backend) Rollout(_ context.Context, app string) (apiv1.RolloutView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.RolloutView, error) {
		v := apiv1.RolloutView{Name: app, Source: m.Tier(), Services: []apiv1.ServiceRollout{}}
		for _, key := range records.SortedKeys(m.Shares) {
			s := m.Shares[key]
			if s.App != app {
				continue
			}
			v.Revision = max(v.Revision, s.Revision)
			r := rollouts.UpTable.Rows(m.DB)[key]
			if r == nil {
				r = &wire.RolloutReport{Cluster: m.Name, App: app, Service: s.Service, Revision: s.Revision,
					Phase: wire.RolloutDone, Promised: rollouts.Promised(s), Updated: views.ServiceView(m, s).Ready}
			}
			shown := *r
			for _, i := range m.Insts {
				if i.App == app && i.Service == s.Service && i.State == wire.Running && i.Ready {
					shown.Ready++
				}
			}
			v.Services = append(v.Services, apiv1.ServiceRollout{Name: s.Service, Phase: r.Phase, Why: r.Why,
				Promised: r.Promised, Updated: r.Updated, Ready: shown.Ready, Hold: s.Hold,
				Clusters: []wire.RolloutReport{shown}})
		}
		if len(v.Services) == 0 {
			return v, edits.NoApp(b.Core, app)
		}
		return v, nil
	})
}
