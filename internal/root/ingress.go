package root

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// hostsFree says whether no other application has what an ingress of spec takes for
// itself. Who may not see the other is not told which it is.
func (m *model) hostsFree(who access.Who, spec *api.Application) error {
	taken := wire.Claims{}
	for _, name := range records.SortedKeys(m.apps) {
		app := m.apps[name]
		if name == spec.Application {
			continue
		}
		for svc, s := range app.Spec.Services {
			by := "another application"
			if maySee(who, app) {
				by = name + "." + svc
			}
			taken.Add(by, wire.NamespaceOf(app.Spec), s.Ports)
		}
	}
	return taken.Free(spec)
}
