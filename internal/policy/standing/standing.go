package standing

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// ParseAllow reads the rights of a namespace's instances, "writable-root+NET_RAW", "all" or "none",
// and returns them in canonical form; "" is the default. "all" are all rights of containers; those
// of processes are listed beside it: "all+host-root".
func ParseAllow(text string) (string, error) {
	switch strings.ToLower(text) {
	case "", wire.AllowAll, wire.AllowNone:
		return strings.ToLower(text), nil
	}
	rights := strings.Split(text, "+")
	for i, r := range rights {
		switch lower := strings.ToLower(r); {
		case lower == api.RightWritableRoot, lower == api.RightNewPrivileges, lower == api.RightNoSeccomp,
			lower == api.RightHostRoot, lower == api.RightHostUser, lower == wire.AllowAll && len(rights) > 1:
			rights[i] = lower
		case api.IsCapability(api.CapabilityName(r)):
			rights[i] = api.CapabilityName(r)
		default:
			return "", fmt.Errorf("%q is nothing that an instance may have: it is %s, %s, %s or the name of a capability "+
				"(NET_RAW) for containers, all for all of these, %s or %s for processes, or none; several are joined by +",
				r, api.RightWritableRoot, api.RightNewPrivileges, api.RightNoSeccomp, api.RightHostRoot, api.RightHostUser)
		}
	}
	slices.Sort(rights)
	rights = slices.Compact(rights)
	if slices.Contains(rights, wire.AllowAll) {
		for _, r := range rights {
			if r != wire.AllowAll && r != api.RightHostRoot && r != api.RightHostUser {
				return "", fmt.Errorf("%q is among all that a container may have; write one of them", r)
			}
		}
	}
	return strings.Join(rights, "+"), nil
}

// ForbiddenRights is the error for rights that a descriptor asks for and the namespace does not
// allow; nil if it allows them. before are the rights that the service had, which it keeps.
func ForbiddenRights(namespace string, s wire.Standing, spec *api.Application, before func(service string) *api.Service) error {
	var over, rights []string
	for _, svc := range spec.ServiceNames() {
		now, old := spec.Services[svc], before(svc)
		asks := func(field string, of func(*api.Service) []string) {
			bad := s.Forbids(of(now))
			if old != nil {
				had := of(old)
				bad = slices.DeleteFunc(bad, func(r string) bool { return slices.Contains(had, r) })
			}
			if len(bad) == 0 {
				return
			}
			rights = append(rights, bad...)
			over = append(over, fmt.Sprintf("services.%s.%s asks for %s", svc, field, strings.Join(bad, ", ")))
		}
		asks("security", func(s *api.Service) []string { return s.Security.Rights() })
		asks("user", (*api.Service).UserRights)
	}
	if len(over) == 0 {
		return nil
	}
	if len(over) > 3 {
		over = append(over[:3], fmt.Sprintf("and %d more", len(over)-3))
	}
	allow := "verge namespace standing " + namespace + " " + textWith(s, s.With(rights))
	return wire.Problemf(403, "over-rights", "leave it out, or have it allowed by an administrator: "+allow,
		"nothing was changed: the namespace does not allow that to its instances",
		"%s; namespace %s allows %s", strings.Join(over, "; "), namespace, s.Allowed())
}

// textWith is a standing in the syntax of the command line, with another Allow.
func textWith(s wire.Standing, allow string) string {
	s.Allow = allow
	return s.String()
}
