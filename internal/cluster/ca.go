package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// CA implements rest.Backend: the part of it that is here.
func (b backend) CA(context.Context) (wire.CAView, error) {
	roots := b.ca.Roots()
	v := wire.CAView{Rotating: len(roots) > 1, Server: b.id.Leaf().NotAfter, Members: []wire.CAMember{}}
	for _, c := range roots {
		v.Authorities = append(v.Authorities, wire.CAAuthority{ID: pki.KeyHash(c.RawSubjectPublicKeyInfo)[:16], Made: c.NotBefore, Expires: c.NotAfter})
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range records.SortedKeys(b.m.Workers) {
		w := b.m.Workers[name]
		m := wire.CAMember{Name: "worker/" + b.name + "/" + name, Expires: w.CertifiedUntil(), Current: w.Info.Trust == b.trusts, Away: w.Suspect || !w.EverHeard}
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
}
