package resttest

import (
	"context"
	"io"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// CA is CAState.
func (f *Fake) CA(context.Context) (apiv1.CAView, error) {
	return give(f, "ca", &f.CAState)
}

// RotateCA records the request and answers CAState; Hook changes it.
func (f *Fake) RotateCA(_ context.Context, r apiv1.CARotateRequest) (apiv1.CAView, error) {
	return do(f, "rotate-ca", func() (apiv1.CAView, error) {
		f.Rotations = append(f.Rotations, r)
		return f.CAState, nil
	})
}

// Backup writes Archive.
func (f *Fake) Backup(_ context.Context, w io.Writer, _ bool) error {
	end, err := f.begin("backup")
	if err != nil {
		return err
	}
	defer end()
	_, err = w.Write(f.Archive)
	return err
}

// Recovery is Recovering.
func (f *Fake) Recovery(context.Context) (apiv1.RecoveryView, error) {
	return give(f, "recovery", &f.Recovering)
}

// FinishRecovery takes a peer, or all, out of Recovering.
func (f *Fake) FinishRecovery(_ context.Context, peer string) error {
	return f.run("finish", func() error {
		if peer == "" {
			f.Recovering = apiv1.RecoveryView{Peers: []apiv1.RecoveryPeer{}}
			return nil
		}
		for i, p := range f.Recovering.Peers {
			if p.Name == peer {
				f.Recovering.Peers[i].Asked = f.Recovering.Restored
				return nil
			}
		}
		return missing("cluster", peer)
	})
}

// noteLocal remembers whether a change was meant for one site.
func (f *Fake) noteLocal(ctx context.Context) { f.MeantLocal = rest.Local(ctx) }

// LocalChanges are Local.
func (f *Fake) LocalChanges(context.Context) (apiv1.LocalView, error) {
	return give(f, "local", &f.Local)
}

// DropLocal takes changes out of Local.
func (f *Fake) DropLocal(_ context.Context, app, service string) error {
	return f.run("drop", func() error {
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
	})
}

// AckConflict takes a conflict out of Local.
func (f *Fake) AckConflict(_ context.Context, id string) error {
	return f.run("ack", func() error {
		for i, c := range f.Local.Conflicts {
			if c.ID == id {
				f.Local.Conflicts = append(f.Local.Conflicts[:i:i], f.Local.Conflicts[i+1:]...)
				return nil
			}
		}
		return missing("conflict", id)
	})
}
