package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// Rollout answers with RolloutAnswer.
func (f *Fake) Rollout(context.Context, string) (wire.RolloutView, error) {
	end, err := f.begin("rollout")
	if err != nil {
		return wire.RolloutView{}, err
	}
	defer end()
	return f.RolloutAnswer, nil
}

// Pause notes the request, and marks the services that it names.
func (f *Fake) Pause(_ context.Context, _ string, q wire.RolloutRequest) (wire.RolloutView, error) {
	return f.hold("pause", q, wire.RolloutPaused)
}

// Resume notes the request, and marks the services that it names.
func (f *Fake) Resume(_ context.Context, _ string, q wire.RolloutRequest) (wire.RolloutView, error) {
	return f.hold("resume", q, wire.RolloutRolling)
}

func (f *Fake) hold(op string, q wire.RolloutRequest, phase string) (wire.RolloutView, error) {
	end, err := f.begin(op)
	if err != nil {
		return wire.RolloutView{}, err
	}
	defer end()
	f.Rollouts = append(f.Rollouts, q)
	f.RolloutAnswer.Services = slices.Clone(f.RolloutAnswer.Services)
	for n := range f.RolloutAnswer.Services {
		if s := &f.RolloutAnswer.Services[n]; q.Service == "" || s.Name == q.Service {
			s.Phase = phase
		}
	}
	return f.RolloutAnswer, nil
}

// Undo notes the request and answers with ApplyAnswer.
func (f *Fake) Undo(_ context.Context, _ string, q wire.RolloutRequest) (wire.ApplyResult, error) {
	end, err := f.begin("undo")
	if err != nil {
		return wire.ApplyResult{}, err
	}
	defer end()
	f.Rollouts = append(f.Rollouts, q)
	return f.ApplyAnswer, nil
}

// Revisions are those of RevisionList, without their descriptors.
func (f *Fake) Revisions(context.Context, string) ([]wire.AppRevision, error) {
	end, err := f.begin("revisions")
	if err != nil {
		return nil, err
	}
	defer end()
	out := slices.Clone(f.RevisionList)
	for n := range out {
		out[n].Descriptor = ""
	}
	return out, nil
}

// Revision is one of RevisionList.
func (f *Fake) Revision(_ context.Context, app string, n uint64) (wire.AppRevision, error) {
	end, err := f.begin("revision")
	if err != nil {
		return wire.AppRevision{}, err
	}
	defer end()
	for _, r := range f.RevisionList {
		if r.Revision == n {
			return r, nil
		}
	}
	return wire.AppRevision{}, wire.Problemf(404, "no-such-revision", "verge rollout history "+app, "there is no such revision", "revision %d of %s is not kept", n, app)
}
