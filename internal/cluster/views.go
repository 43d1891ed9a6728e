package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Applications implements rest.Backend: the part of each that is here.
func (b backend) Applications(context.Context) ([]wire.AppView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.apps(), nil
}

// Application implements rest.Backend.
func (b backend) Application(ctx context.Context, app string) (wire.AppView, error) {
	all, err := b.Applications(ctx)
	if err != nil {
		return wire.AppView{}, err
	}
	for _, a := range all {
		if a.Name == app {
			a.Descriptor, err = b.descriptor(app)
			return a, err
		}
	}
	return wire.AppView{}, b.noApp(app)
}

// descriptor is what counts here of an application, in the words of a descriptor;
// "" where it is ending. The text that was applied is at the root.
func (c *core) descriptor(app string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec := c.m.written(app)
	if spec == nil {
		return "", nil
	}
	spec.Namespace = c.m.Namespace(app)
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the descriptor of %s: %w", app, err)
	}
	return string(b), nil
}

// apps are the applications as far as they are here, and those of which something
// is still ending.
func (m *model) apps() []wire.AppView {
	by := map[string]*wire.AppView{}
	of := func(app string) *wire.AppView {
		if by[app] == nil {
			by[app] = &wire.AppView{Name: app, Namespace: m.Namespace(app), Holds: true}
		}
		return by[app]
	}
	for _, key := range records.SortedKeys(m.Shares) {
		s := m.Shares[key]
		a := of(s.App)
		a.Revision = max(a.Revision, s.Revision)
		if r := m.Routes[key]; r != nil && r.AppNumber != 0 {
			a.Number = r.AppNumber
		} else if a.Number == 0 {
			a.Number = s.AppNumber
		}
		v := m.serviceView(s)
		a.Services = append(a.Services, v)
	}
	for _, key := range records.SortedKeys(m.Insts) {
		if i := m.Insts[key]; by[i.App] == nil || by[i.App].Deleting {
			a := of(i.App)
			a.Deleting, a.Holds, a.Message = true, false, "instances are still ending"
			a.Revision = max(a.Revision, i.Revision)
		}
	}
	out := make([]wire.AppView, 0, len(by))
	for _, name := range records.SortedKeys(by) {
		a := by[name]
		if !a.Deleting {
			a.Message = wire.Incomplete(a.Services)
			a.Holds = a.Message == ""
		}
		local := m.localViews(name)
		a.Local, a.Conflicts = local.Changes, local.Conflicts
		if n := m.Tallies[name]; n != nil {
			a.Tally = *n
		}
		out = append(out, *a)
	}
	return out
}

// serviceView is a share and how far it is.
func (m *model) serviceView(s *wire.Share) wire.ServiceView {
	v := wire.ServiceView{Name: s.Service, Wanted: promised(s), Clusters: []string{m.Name}}
	if given := m.delegated(s.App + "." + s.Service); given != nil && given.Max > given.Min {
		v.Most = given.Max
	}
	for _, p := range s.Spec.Ports {
		if p.Ingress != nil && p.Ingress.Host != "" {
			v.Hosts = append(v.Hosts, p.Ingress.Host)
		}
	}
	t := m.reads()
	reason, holding, other := "", 0, 0 // other: those that are ready, and not as applied
	for _, o := range ordinals(s) {
		i := m.Insts[instanceID(s.App, s.Service, o)]
		if i == nil || standIn(i) {
			continue
		}
		if i.Worker != "" {
			v.Placed++
		}
		switch {
		case i.State == wire.Running && i.Unreachable:
			what := i.ID + " is unreachable: worker " + i.Worker + " is not heard of"
			if i.Pinned != "" {
				what = i.ID + " is unreachable: " + i.Reason
			}
			reason = what
			continue
		case i.State == wire.Running && i.Ready:
			v.Running++
			v.Ready++
			if i.Revision == s.Revision {
				holding++
				continue
			}
			if other++; reason == "" {
				reason = i.ID + " still runs what was wanted before"
			}
			continue
		case state.Asleep(i):
			v.Asleep++
			holding++
			continue
		case i.State == wire.Running:
			v.Running++
		case i.State == wire.Terminated:
			holding++ // completed, and not to be run again
			continue
		}
		if i.Reason != "" {
			reason = i.ID + ": " + i.Reason
		}
		if why := t.failedFor(i, s); why != "" && i.Revision == s.Revision && v.Failed == "" {
			v.Failed = i.ID + ": " + why
		}
	}
	if s.Spec.Job != nil {
		job, message := m.jobView(s)
		v.Job, v.Message = &job, message
		if v.Failed = ""; s.Spec.Cron == nil && job.Outcome == wire.JobFailed {
			v.Failed = message
		}
		return v
	}
	r := m.upRolls[s.App+"."+s.Service]
	if r != nil && r.Phase != wire.RolloutDone {
		v.Rollout = r.Phase
	}
	if holding < v.Wanted {
		v.Message = wire.HowReady(holding+other, holding, v.Wanted)
		if reason != "" {
			v.Message += "; " + reason
		}
		if v.Rollout != "" && r.Why != "" {
			v.Message += "; rollout " + r.Phase + ": " + r.Why
		}
	}
	return v
}
