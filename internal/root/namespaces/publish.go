package namespaces

import (
	"fmt"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// PublishRules are what the namespaces may publish.
func PublishRules(m *state.Model) publish.Rules {
	rules := publish.Rules{}
	for name, ns := range m.Namespaces {
		if p := ns.Standing.Publish(); p != nil {
			rules[name] = p
		}
	}
	return rules
}

// unallowed says what the applications of each namespace publish and could not publish anew,
// by what its standing is now. They keep it.
func unallowed(m *state.Model) map[string][]string {
	out, rules := map[string][]string{}, PublishRules(m)
	for _, name := range records.SortedKeys(m.Apps) {
		app := m.Apps[name]
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
