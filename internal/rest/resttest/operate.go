package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Scale answers ApplyAnswer; Hook changes what there is.
func (f *Fake) Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error) {
	end, err := f.begin("scale")
	if err != nil {
		return wire.ApplyResult{}, err
	}
	defer end()
	f.noteLocal(ctx)
	for i := range f.Apps {
		for j, s := range f.Apps[i].Services {
			if f.Apps[i].Name == app && s.Name == service {
				f.Apps[i].Services[j].Wanted = replicas
				return f.ApplyAnswer, nil
			}
		}
	}
	return wire.ApplyResult{}, missing("service", app+"."+service)
}

// Restart answers RestartAnswer; Hook changes what there is.
func (f *Fake) Restart(_ context.Context, app string, r wire.RestartRequest) (wire.RestartResult, error) {
	end, err := f.begin("restart")
	if err != nil {
		return wire.RestartResult{}, err
	}
	defer end()
	f.Restarts = append(f.Restarts, r)
	for i := range f.Apps {
		if f.Apps[i].Name == app {
			return f.RestartAnswer, nil
		}
	}
	return wire.RestartResult{}, missing("application", app)
}
