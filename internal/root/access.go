package root

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// callerOf says who a client certificate is here: an administrator of this root
// may everything, an administrator of one of its clusters is its operator, and a
// cluster may read the objects of those namespaces of which it has a share.
func (r *Root) callerOf(cs tls.ConnectionState) (rest.Principal, error) {
	s, err := pki.PeerSubject(cs)
	if err != nil {
		return rest.Principal{}, err
	}
	if s.Role == pki.RoleCluster {
		return r.clusterCaller(cs, s)
	}
	if s.Role != pki.RoleAdmin {
		return rest.Principal{}, fmt.Errorf("%s is not a person", s)
	}
	who := access.Who{Name: s.String(), Admin: s.Cluster == ""}
	if s.Cluster != "" {
		who.Clusters = map[string]access.Role{s.Cluster: access.Operator}
	}
	return rest.Principal{Who: who}, nil
}

// Locate implements rest.Backend.
func (b backend) Locate(kind access.Kind, name string) (o access.Object, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch kind {
	case access.Application:
		app := b.m.apps[name]
		return access.Object{Namespace: b.m.namespace(name)}, app != nil
	case access.Instance:
		i := b.m.insts[name]
		if v, found := b.m.extraView(name, time.Now()); i == nil && found {
			i = &v.Instance
		}
		if i == nil {
			return o, false
		}
		return access.Object{Namespace: b.m.namespace(i.App), Cluster: i.Cluster}, true
	}
	return o, false
}

// namespace of an application. Instances may outlive its record by a moment: they
// are then in none, and so seen by administrators alone.
func (m *model) namespace(app string) string {
	if a := m.apps[app]; a != nil {
		return wire.NamespaceOf(a.Spec)
	}
	return ""
}

// seen are the clusters that who asks may see.
func seen(ctx context.Context, list []wire.ClusterView) []wire.ClusterView {
	return access.Visible(access.From(ctx), list, func(c wire.ClusterView) access.Object {
		return access.Object{Kind: access.Cluster, Name: c.Name, Cluster: c.Name}
	})
}

// maySee says whether who may see an application.
func maySee(who access.Who, app *wire.Application) bool {
	return access.May(who, access.See, access.Object{Kind: access.Application, Name: app.Name, Namespace: wire.NamespaceOf(app.Spec)}) == nil
}

// nameTaken is the refusal of an application whose name another namespace has.
// Names are unique at a root, since instances are called by them everywhere; so
// that a name is taken can be learnt, but by whom only by those who may see it.
func nameTaken(who access.Who, old *wire.Application) error {
	detail := old.Name + " is the name of another application"
	if maySee(who, old) {
		detail = fmt.Sprintf("%s belongs to namespace %s, and an application cannot change its namespace", old.Name, wire.NamespaceOf(old.Spec))
	}
	return wire.Problemf(409, "name-taken", "choose another name for the application", "the name is taken", "%s", detail)
}
