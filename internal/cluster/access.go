package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// callerOf says who a client certificate is here. Only an administrator that this
// cluster itself has certified may use it, and for objects its workers.
func (c *Cluster) callerOf(cs tls.ConnectionState) (rest.Principal, error) {
	s, err := pki.PeerSubject(cs)
	if err != nil {
		return rest.Principal{}, err
	}
	if s.Role == pki.RoleWorker && s.Cluster == c.name {
		return c.workerCaller(cs, s)
	}
	if s.Role != pki.RoleAdmin || s.Cluster != c.name {
		return rest.Principal{}, fmt.Errorf("%s is not an operator of cluster %s", s, c.name)
	}
	return rest.Principal{Who: access.Who{Name: s.String(), Admin: true}}, nil
}

// Authenticate implements rest.Backend: a token is a user's of this cluster, or was
// made by its administrator for a program.
func (b backend) Authenticate(ctx context.Context, text string) (rest.Principal, error) {
	p, known, err := b.Book.Authenticate(ctx, text)
	if known || err != nil {
		return p, err
	}
	return b.ledger.Bearer(ctx, text, b.clock.Now())
}

// Tokens and RevokeToken implement rest.Backend.
func (b backend) Tokens(ctx context.Context) ([]wire.TokenView, error) { return b.ledger.Tokens(ctx) }

func (b backend) RevokeToken(ctx context.Context, id string) ([]wire.TokenView, error) {
	return b.ledger.RevokeToken(ctx, id)
}

// Locate implements rest.Backend.
func (b backend) Locate(kind access.Kind, name string) (o access.Object, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch kind {
	case access.Application:
		ns := b.m.Namespace(name)
		return access.Object{Namespace: ns}, ns != ""
	case access.Instance:
		i := b.m.Insts[name]
		if i == nil {
			return o, false
		}
		return access.Object{Namespace: b.m.NamespaceOf(i)}, true
	}
	return o, false
}

// maySee says whether who may see an application.
func (m *model) maySee(who access.Who, app string) bool {
	return access.May(who, access.See, access.Object{Kind: access.Application, Name: app, Namespace: m.Namespace(app), Cluster: m.Name, Site: true}) == nil
}

// seenWorkers and seenApps are those that who asks may see.
func seenWorkers(ctx context.Context, site string, list []wire.WorkerView) []wire.WorkerView {
	return access.Visible(access.From(ctx), list, func(w wire.WorkerView) access.Object {
		return access.Object{Kind: access.Worker, Name: site + "/" + w.Name, Cluster: site, Site: true}
	})
}

// seenLocal is of the local changes what who asks may see.
func seenLocal(ctx context.Context, v wire.LocalView) ([]wire.LocalChange, []wire.Conflict) {
	who := access.From(ctx)
	return access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return rest.OfLocal(l, true) }),
		access.Visible(who, v.Conflicts, func(c wire.Conflict) access.Object { return rest.OfLocal(c.LocalChange, true) })
}

func seenApps(ctx context.Context, site string, list []wire.AppView) []wire.AppView {
	return access.Visible(access.From(ctx), list, func(a wire.AppView) access.Object {
		return access.Object{Kind: access.Application, Name: a.Name, Namespace: a.Namespace, Cluster: site, Site: true}
	})
}

// place tells the events which namespace each application is in.
func (c *core) place() {
	for _, s := range c.m.Shares {
		c.events.Place(s.App, cmp.Or(s.Namespace, api.DefaultNamespace))
	}
}
