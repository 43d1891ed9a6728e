package cluster

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
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
	if s.Role == pki.RoleWorker && s.Cluster == c.ClusterName {
		return c.workerCaller(cs, s)
	}
	if s.Role != pki.RoleAdmin || s.Cluster != c.ClusterName {
		return rest.Principal{}, fmt.Errorf("%s is not an operator of cluster %s", s, c.ClusterName)
	}
	return rest.Principal{Who: access.Who{Name: s.String(), Admin: true}}, nil
}

// workerCaller says what a worker may ask for by HTTP: the objects of namespaces of
// which it is to run something, and the programs that it may be upgraded to.
func (c *Cluster) workerCaller(cs tls.ConnectionState, s pki.Subject) (rest.Principal, error) {
	if err := c.Core.Revoked.RefusesPeer(cs); err != nil {
		return rest.Principal{}, err
	}
	return core.View2(c.Core, func(m *state.Model) (rest.Principal, error) {
		if w := m.Workers[s.Name]; w == nil || !w.Revoked.IsZero() {
			return rest.Principal{}, fmt.Errorf("%s is not known here", s)
		}
		// what it is upgraded to is no secret
		runs, reads := map[string]bool{}, map[string]bool{wire.ProgramsNamespace: true}
		for key, o := range m.Orders {
			if strings.HasPrefix(key, s.Name+".") && o.Spec != nil {
				runs[wire.OrderNamespace(o)], reads[wire.OrderNamespace(o)] = true, true
			}
		}
		return rest.Principal{Who: access.Who{Name: s.String(), Node: true, Reads: reads, Writes: runs}}, nil
	})
}
