package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// noteLocal remembers whether a change was meant for one site.
func (f *Fake) noteLocal(ctx context.Context) { f.MeantLocal = rest.Local(ctx) }

// LocalChanges are Local.
func (f *Fake) LocalChanges(context.Context) (wire.LocalView, error) {
	end, err := f.begin("local")
	if err != nil {
		return wire.LocalView{}, err
	}
	defer end()
	return f.Local, nil
}

// DropLocal takes changes out of Local.
func (f *Fake) DropLocal(_ context.Context, app, service string) error {
	end, err := f.begin("drop")
	if err != nil {
		return err
	}
	defer end()
	var left []wire.LocalChange
	for _, l := range f.Local.Changes {
		if l.App != app || (service != "" && l.Service != service) {
			left = append(left, l)
		}
	}
	if len(left) == len(f.Local.Changes) {
		return missing("change", app)
	}
	f.Local.Changes = left
	return nil
}

// AckConflict takes a conflict out of Local.
func (f *Fake) AckConflict(_ context.Context, id string) error {
	end, err := f.begin("ack")
	if err != nil {
		return err
	}
	defer end()
	for i, c := range f.Local.Conflicts {
		if c.ID == id {
			f.Local.Conflicts = append(f.Local.Conflicts[:i:i], f.Local.Conflicts[i+1:]...)
			return nil
		}
	}
	return missing("conflict", id)
}
