package backend

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/recovery"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/people"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Backend answers the operations.
type Backend struct {
	*core.Core
	*people.Book
	*people.Log
	Node
	Ledger      *enroll.Ledger
	ObjectStore *objects.Store
	Clock       *pki.Clock // by which tokens are judged

	// programs is held while an upgrade begins, and while programs are removed; before the lock
	// of the model.
	programs sync.Mutex
}

// Node is the process of a cluster: its authority, who joins it and leaves it, and its files.
type Node interface {
	rest.Joining
	rest.Leaving
	// CA is who trusts what, and until when.
	CA(ctx context.Context) (apiv1.CAView, error)
	RemoveWorker(ctx context.Context, cluster, worker string, force bool) error
	RevokeWorker(ctx context.Context, cluster, worker string) error
	RevokePlugin(ctx context.Context, name string) error
	// Backup writes an archive of this moment, see rest.Backups.
	Backup(ctx context.Context, w io.Writer, objects bool) error
	// Addrs are the addresses of the HTTP interface, most likely first.
	Addrs() []string
	// LinkRefused says whether the root does not let this cluster in.
	LinkRefused() bool
}

// Instances implements rest.Backend.
func (b *Backend) Instances(_ context.Context, app, service string) ([]apiv1.InstanceView, error) {
	return core.View2(b.Core, func(m *state.Model) ([]apiv1.InstanceView, error) {
		now := time.Now()
		var out []apiv1.InstanceView
		t := m.Read()
		for _, i := range t.Instances() {
			if (app == "" || i.App == app) && (service == "" || i.Service == service) {
				out = append(out, views.View(t, i, now))
			}
		}
		return out, nil
	})
}

// Instance implements rest.Backend.
func (b *Backend) Instance(_ context.Context, id wire.InstanceID) (apiv1.InstanceView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.InstanceView, error) {
		i := m.Insts[id]
		if i == nil {
			return apiv1.InstanceView{}, core.NoInstance(b.Core, id)
		}
		return views.View(m.Read(), i, time.Now()), nil
	})
}

// Explain implements rest.Backend.
func (b *Backend) Explain(ctx context.Context, id wire.InstanceID) (apiv1.Explanation, error) {
	return views.Explain(ctx, b.Core, id)
}

// Logs implements rest.Backend.
func (b *Backend) Logs(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	return views.Logs(ctx, b.Core, q.Logs(id))
}

// Workers implements rest.Backend.
func (b *Backend) Workers(context.Context) ([]rpc.WorkerView, error) {
	return views.Workers(b.Core), nil
}

// Entries implements rest.Backend.
func (b *Backend) Entries(ctx context.Context, cluster, worker string) ([]rpc.EntryView, error) {
	if cluster != b.ClusterName {
		return nil, rest.ElsewhereAt("asking for a worker", cluster)
	}
	return workers.Entries(ctx, b.Core, worker)
}

// Events implements rest.Backend.
func (b *Backend) Events(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error) {
	return b.EventRing.After(ctx, after, wait), nil
}

// Status implements rest.Backend.
func (b *Backend) Status(ctx context.Context) (apiv1.StatusView, error) {
	s := apiv1.StatusView{Role: "cluster", Name: b.ClusterName, Version: obs.Version(), Time: time.Now(),
		Workers: views.SeenWorkers(ctx, b.ClusterName, views.Workers(b.Core)), Upstream: "connected"}
	core.Do(b.Core, func(m *state.Model) { b.status(ctx, m, &s) })
	return s, nil
}

// status adds what the model says to a status.
func (b *Backend) status(ctx context.Context, m *state.Model, s *apiv1.StatusView) {
	s.Started = m.Started
	s.Apps = views.SeenApps(ctx, b.ClusterName, views.Apps(m))
	for _, a := range s.Apps {
		s.Tally = s.Tally.Plus(a.Tally)
	}
	if access.From(ctx).Admin {
		s.Tally, s.SinceAway = m.Counted(), uplink.SinceAway(b.Core)
		s.Network = netlease.View(m)
	}
	local := localedit.Views(m, "")
	s.Local, s.Conflicts = views.SeenLocal(ctx, local)
	s.UpstreamAt = uplink.Memory(m).UpAt
	if err := uplink.RootAway(b.Core); err != nil {
		s.Upstream = "away: " + err.Error()
		problem := "the root does not answer; the site goes on by itself"
		switch {
		case uplink.Memory(m).Refused != nil:
			s.Upstream = "refused: " + uplink.Memory(m).Refused.Title
			problem = "the root refuses this cluster; the site goes on by itself: " +
				strings.ReplaceAll(uplink.Memory(m).Refused.Error(), "\n", "")
		case b.Node != nil && b.LinkRefused():
			s.Upstream = "refused: the root does not know this cluster"
			problem = "the root does not let this cluster in: it was removed or revoked there, or the root was " +
				"restored from a backup that is older than it. " +
				"The site goes on by itself. To join again: verge token create --cluster " + b.ClusterName +
				" at the root; then start this one with that token"
		}
		s.Problems = append(s.Problems, problem)
	}
	if p := recovery.Problem(recovery.View(m)); p != "" && access.From(ctx).Admin {
		s.Problems = append(s.Problems, p)
	}
	if access.From(ctx).Admin {
		s.Problems = append(s.Problems, records.Words(slices.Concat(m.Unread, b.HookKeeper.Unread()))...)
	}
	s.Problems = append(s.Problems, apiv1.ConflictProblems(s.Conflicts)...)
	s.Problems = append(s.Problems, localedit.LostHosts(m)...)
	if p := netlease.WithoutIPv4(m); p != "" {
		s.Problems = append(s.Problems, p)
	}
	for _, w := range s.Workers {
		if w.Status != "ready" {
			what := fmt.Sprintf("worker %s is %s", w.Name, w.Status)
			if !w.Revoked.IsZero() {
				what = fmt.Sprintf("the key of worker %s was revoked: it has to join again with a new token", w.Name)
			} else if w.Impaired != "" {
				what += ": " + w.Impaired
			}
			s.Problems = append(s.Problems, what)
			continue // what it said last is not news
		}
		if p := apiv1.SkewProblem("worker "+w.Cluster+"/"+w.Name, "its cluster", w.ClockSkewSeconds); p != "" {
			s.Problems = append(s.Problems, p)
		}
		for _, p := range w.Problems {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s/%s: %s", w.Cluster, w.Name, p))
		}
	}
	for _, a := range s.Apps {
		if !a.Holds {
			s.Problems = append(s.Problems, "application "+a.Name+": "+a.Message)
		}
	}
	if err := b.RecordStore.WriteError(); err != nil {
		s.Problems = append(s.Problems, "nothing can be stored: "+err.Error())
	}
}

// CreateToken implements rest.Backend.
func (b *Backend) CreateToken(ctx context.Context, r apiv1.TokenRequest) (apiv1.TokenReply, error) {
	ttl := time.Duration(r.TTLSeconds) * time.Second
	now := b.Clock.Now()
	if r.Gateway && r.Kind != "worker" {
		return apiv1.TokenReply{}, rest.NoGatewayToken(r.Kind)
	}
	if r.Uses > 1 && (r.Kind != "worker" || r.Gateway) {
		return apiv1.TokenReply{}, rest.OneUseToken()
	}
	switch r.Kind {
	case "worker":
		if r.Gateway {
			return b.Ledger.NewGatewayJoin(ctx, b.ClusterName, b.Addrs(), ttl, now)
		}
		if r.Uses > 1 {
			return b.Ledger.NewManyJoin(ctx, b.ClusterName, b.Addrs(), r.Uses, ttl, now)
		}
		return b.Ledger.NewJoin(ctx, "worker", b.ClusterName, b.Addrs(), ttl, now)
	case "plugin":
		if !enroll.IsName(r.Plugin) {
			return apiv1.TokenReply{}, wire.Problemf(400, "bad-name",
				"give another: letters a-z, digits and -, at most 63", "this cannot be the name of a plugin", "%.80q",
				r.Plugin)
		}
		return b.Ledger.NewPluginJoin(ctx, b.ClusterName, r.Plugin, b.Addrs(), ttl, now)
	case "api":
		return b.Ledger.NewBearer(ctx, access.From(ctx).Name, ttl, now)
	}
	return apiv1.TokenReply{}, rest.Elsewhere("making a token for a "+r.Kind, "the root")
}

// Ready implements rest.Backend.
func (b *Backend) Ready() error { return b.RecordStore.WriteError() }

// Authenticate implements rest.Backend: a token is a user's of this cluster, or was
// made by its administrator for a program.
func (b *Backend) Authenticate(ctx context.Context, text string) (rest.Principal, error) {
	p, known, err := b.Book.Authenticate(ctx, text)
	if known || err != nil {
		return p, err
	}
	return b.Ledger.Bearer(ctx, text, b.Clock.Now())
}

// Tokens implements rest.Tokens.
func (b *Backend) Tokens(ctx context.Context) ([]apiv1.TokenView, error) { return b.Ledger.Tokens(ctx) }

// RevokeToken implements rest.Tokens.
func (b *Backend) RevokeToken(ctx context.Context, id string) ([]apiv1.TokenView, error) {
	return b.Ledger.RevokeToken(ctx, id)
}

// Locate implements rest.Backend.
func (b *Backend) Locate(kind access.Kind, name string) (o access.Object, ok bool) {
	return core.View2(b.Core, func(m *state.Model) (o access.Object, ok bool) {
		switch kind {
		case access.Application:
			ns := m.Namespace(name)
			return access.Object{Namespace: ns}, ns != ""
		case access.Instance:
			i := m.Insts[name]
			if i == nil {
				return o, false
			}
			return access.Object{Namespace: m.NamespaceOf(i)}, true
		}
		return o, false
	})
}
