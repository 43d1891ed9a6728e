package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/pki"
)

// CA implements backend.Node: the part of it that is here.
func (c *Cluster) CA(context.Context) (apiv1.CAView, error) {
	roots := c.ca.Roots()
	v := apiv1.CAView{Rotating: len(roots) > 1, Server: c.id.Leaf().NotAfter, Members: []apiv1.CAMember{}}
	for _, c := range roots {
		v.Authorities = append(v.Authorities,
			apiv1.CAAuthority{ID: pki.KeyHash(c.RawSubjectPublicKeyInfo)[:16], Made: c.NotBefore, Expires: c.NotAfter})
	}
	return core.View2(c.Core, func(_ *state.Model) (apiv1.CAView, error) {
		for _, name := range records.SortedKeys(c.M.Workers) {
			w := c.M.Workers[name]
			m := apiv1.CAMember{Name: "worker/" + c.ClusterName + "/" + name, Expires: w.CertifiedUntil(),
				Current: w.Info.Trust == uplink.Memory(c.M).Trusts, Away: w.Suspect || !w.EverHeard}
			v.Members = append(v.Members, m)
			if m.Current || !w.Revoked.IsZero() {
				continue
			}
			who := m.Name
			if m.Away {
				who += " (it is away)"
			}
			v.Behind = append(v.Behind, who)
		}
		return v, nil
	})
}
