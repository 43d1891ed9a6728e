package localedit

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Wish is what an operator wants of one service at this site.
type Wish struct {
	Gone     bool
	Replicas int
	Most     int          // of them, where the requests decide; 0: as many
	Spec     *api.Service // nil: as it is
}

// Parse is a descriptor with what is to be said about it.
func Parse(source []byte) (*api.Application, apiv1.ApplyResult, error) {
	var res apiv1.ApplyResult
	spec, warnings, err := descriptor.Parse("descriptor", source)
	if err != nil {
		return nil, res, rest.InvalidDescriptor(err)
	}
	res.Name = spec.Application
	for _, w := range warnings {
		res.Warnings = append(res.Warnings, w.String())
	}
	return spec, res, nil
}

// Rights says whether the containers of an application may do what they are to, by what
// the root has last said of its namespace. What they can already is not refused.
func Rights(m *state.Model, spec *api.Application) error {
	namespace := wire.NamespaceOf(spec)
	return standing.ForbiddenRights(namespace, StandingOf(m, namespace), spec, func(svc string) *api.Service {
		if s := m.Shares[spec.Application+"."+svc]; s != nil && state.GroupOf(s) == namespace {
			return s.Spec
		}
		return nil
	})
}

// StandingOf is what the root has last said of a namespace.
func StandingOf(m *state.Model, namespace string) (standing wire.Standing) {
	for _, key := range records.SortedKeys(m.FromRoot) {
		if s := m.FromRoot[key]; state.GroupOf(s) == namespace && (s.Standing.Allow != "" || standing == wire.Standing{}) {
			standing = s.Standing
		}
	}
	if p := m.Publish()[namespace]; p != nil { // also where nothing of it runs here
		standing.Hosts, standing.Ports = p.Hosts, p.Ports
	}
	return standing
}

// Revision of what counts here of an application; 0 for none.
func Revision(m *state.Model, app string) (most uint64) {
	for _, s := range m.Shares {
		if s.App == app {
			most = max(most, s.Revision)
		}
	}
	return most
}

// Ending reports whether nothing of the application is wanted here, and something still runs.
func Ending(m *state.Model, app string) bool {
	for _, i := range m.Insts {
		if i.App == app {
			return true
		}
	}
	return false
}
