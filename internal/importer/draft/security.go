package draft

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Writable is the default security of an imported container: it may write to the files of its
// image, as with Docker and Kubernetes.
func Writable(s *api.Service) {
	if s.Security.Root == "" {
		s.Security.Root = api.RootWritable
	}
}

// CapabilityList carries over added and dropped capabilities; it calls lost with the index of each
// one that it cannot.
func CapabilityList(s *api.Service, add, drop []string, lost func(field string, i int, text string)) {
	for i, said := range drop {
		name := api.CapabilityName(said)
		if name != api.AllCapabilities && !api.IsCapability(name) {
			lost("drop", i, source.Quote(said)+" is not carried over: it is not a capability")
			continue
		}
		if !slices.Contains(s.Security.Drop, name) {
			s.Security.Drop = append(s.Security.Drop, name)
		}
	}
	for i, said := range add {
		switch name := api.CapabilityName(said); {
		case name == api.AllCapabilities:
			lost("add", i, "is not carried over: name the capabilities that it needs (security.add)")
		case !api.IsCapability(name):
			lost("add", i, source.Quote(said)+" is not carried over: it is not a capability")
		case slices.Contains(s.Security.Add, name):
		default:
			// An added capability counts even if it is dropped.
			s.Security.Drop = slices.DeleteFunc(s.Security.Drop, func(d string) bool { return d == name })
			s.Security.Add = append(s.Security.Add, name)
		}
	}
}

// Needs says which rights beyond the defaults a namespace must allow for a service; "" for none.
func Needs(s *api.Service) string {
	rights := slices.DeleteFunc(s.Security.Rights(), func(r string) bool { return r == api.RightWritableRoot })
	return strings.Join(rights, "+")
}
