package root

import (
	"fmt"

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
	namespace := wire.NamespaceOf(spec)
	var had []api.Port
	if old := m.apps[spec.Application]; old != nil && wire.NamespaceOf(old.Spec) == namespace {
		for _, s := range old.Spec.Services {
			had = append(had, s.Ports...)
		}
	}
	return taken.Free(spec, m.standing(namespace), m.publishRules(), had)
}

// publishRules are what the namespaces may publish.
func (m *model) publishRules() wire.PublishRules {
	rules := wire.PublishRules{}
	for name, ns := range m.namespaces {
		if p := ns.Standing.Publish(); p != nil {
			rules[name] = p
		}
	}
	return rules
}

// unallowed says what the applications of each namespace publish and could not publish anew,
// by what its standing is now. They keep it.
func (m *model) unallowed() map[string][]string {
	out, rules := map[string][]string{}, m.publishRules()
	for _, name := range records.SortedKeys(m.apps) {
		app := m.apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		namespace := wire.NamespaceOf(app.Spec)
		for _, svc := range app.Spec.ServiceNames() {
			for i := range app.Spec.Services[svc].Ports {
				if why := rules.Forbids(namespace, &app.Spec.Services[svc].Ports[i]); why != "" {
					out[namespace] = append(out[namespace], fmt.Sprintf("%s.%s: %s", name, svc, why))
				}
			}
		}
	}
	return out
}
