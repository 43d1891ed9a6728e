package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// Rollout implements rest.Backend: the part of it that is here.
func (b backend) Rollout(_ context.Context, app string) (wire.RolloutView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := wire.RolloutView{Name: app, Source: b.m.Tier(), Services: []wire.ServiceRollout{}}
	for _, key := range records.SortedKeys(b.m.Shares) {
		s := b.m.Shares[key]
		if s.App != app {
			continue
		}
		v.Revision = max(v.Revision, s.Revision)
		r := b.m.upRolls[key]
		if r == nil {
			r = &wire.RolloutReport{Cluster: b.m.Name, App: app, Service: s.Service, Revision: s.Revision, Phase: wire.RolloutDone, Promised: promised(s), Updated: b.m.serviceView(s).Ready}
		}
		shown := *r
		for _, i := range b.m.Insts {
			if i.App == app && i.Service == s.Service && i.State == wire.Running && i.Ready {
				shown.Ready++
			}
		}
		v.Services = append(v.Services, wire.ServiceRollout{Name: s.Service, Phase: r.Phase, Why: r.Why, Promised: r.Promised, Updated: r.Updated, Ready: shown.Ready, Hold: s.Hold, Clusters: []wire.RolloutReport{shown}})
	}
	if len(v.Services) == 0 {
		return v, b.noApp(app)
	}
	return v, nil
}
