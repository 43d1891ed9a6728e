package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
)

var (
	_ rest.Backend = Backend{}
	_ rest.Status  = Backend{}
)

// Locate implements rest.Backend.
func (b Backend) Locate(kind access.Kind, name string) (o access.Object, ok bool) {
	return core.View2(b.Core, func(m *state.Model) (o access.Object, ok bool) {
		switch kind {
		case access.Application:
			app := m.Apps[name]
			return access.Object{Namespace: m.Namespace(name)}, app != nil
		case access.Instance:
			i := m.Insts[name]
			if v, found := rollouts.ExtraView(m, name, time.Now()); i == nil && found {
				i = &v.Instance
			}
			if i == nil {
				return o, false
			}
			return access.Object{Namespace: m.Namespace(i.App), Cluster: i.Cluster}, true
		}
		return o, false
	})
}

// Events implements rest.Backend.
func (b Backend) Events(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error) {
	return b.EventRing.After(ctx, after, wait), nil
}

// Status implements rest.Backend.
func (b Backend) Status(ctx context.Context) (apiv1.StatusView, error) {
	s := views.Status(ctx, b.Core)
	if !access.From(ctx).Admin {
		return s, nil // others may not know of all clusters
	}
	known := map[string]bool{}
	for _, c := range s.Clusters {
		known[c.Name] = true
	}
	s.Problems = append(s.Problems, b.Problems(known)...)
	return s, nil
}

// Ready implements rest.Backend.
func (b Backend) Ready() error { return b.RecordStore.WriteError() }
