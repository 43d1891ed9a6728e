package root

import (
	"crypto/tls"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
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

// clusterCaller says what a cluster may ask for by HTTP.
func (r *Root) clusterCaller(cs tls.ConnectionState, s pki.Subject) (rest.Principal, error) {
	if err := r.Revoked.RefusesPeer(cs); err != nil {
		return rest.Principal{}, err
	}
	who := access.Who{Name: s.String(), Node: true, Reads: map[string]bool{}}
	core.Do(r.Core, func(m *state.Model) {
		for key, share := range m.Shares {
			if strings.HasPrefix(key, s.Cluster+".") {
				who.Reads[wire.ShareNamespace(share)] = true
			}
		}
	})
	return rest.Principal{Who: who}, nil
}
