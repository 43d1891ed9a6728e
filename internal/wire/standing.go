package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
)

// What Standing.Allow says besides names of rights.
const (
	AllowAll  = "all"
	AllowNone = "none"
)

// ParseAllow reads what the instances of a namespace may be: "writable-root+NET_RAW",
// "all" or "none", and returns it in the one form; "" is what is without. "all" is all that
// a container may be; what a process may be is named beside it: "all+host-root".
func ParseAllow(text string) (string, error) {
	switch strings.ToLower(text) {
	case "", AllowAll, AllowNone:
		return strings.ToLower(text), nil
	}
	rights := strings.Split(text, "+")
	for i, r := range rights {
		switch lower := strings.ToLower(r); {
		case lower == api.RightWritableRoot, lower == api.RightNewPrivileges, lower == api.RightNoSeccomp,
			lower == api.RightHostRoot, lower == api.RightHostUser, lower == AllowAll && len(rights) > 1:
			rights[i] = lower
		case api.IsCapability(api.CapabilityName(r)):
			rights[i] = api.CapabilityName(r)
		default:
			return "", fmt.Errorf("%q is nothing that an instance may have: it is %s, %s, %s or the name of a capability (NET_RAW) for containers, all for all of these, %s or %s for processes, or none; several are joined by +",
				r, api.RightWritableRoot, api.RightNewPrivileges, api.RightNoSeccomp, api.RightHostRoot, api.RightHostUser)
		}
	}
	slices.Sort(rights)
	rights = slices.Compact(rights)
	if slices.Contains(rights, AllowAll) {
		for _, r := range rights {
			if r != AllowAll && r != api.RightHostRoot && r != api.RightHostUser {
				return "", fmt.Errorf("%q is among all that a container may have; write one of them", r)
			}
		}
	}
	return strings.Join(rights, "+"), nil
}

// Allowed is what Allow says, with what it is where nothing is said: a container may
// then ask for a root that it can write to, which harms nobody else.
func (s Standing) Allowed() string { return cmp.Or(s.Allow, api.RightWritableRoot) }

// Forbids are the rights of instances that the namespace does not allow.
func (s Standing) Forbids(rights []string) []string {
	list := strings.Split(s.Allowed(), "+")
	var out []string
	for _, r := range rights {
		switch {
		case slices.Contains(list, r):
		case slices.Contains(list, AllowAll) && r != api.RightHostRoot && r != api.RightHostUser:
		case r == api.RightHostUser && slices.Contains(list, api.RightHostRoot): // who may be more
		default:
			out = append(out, r)
		}
	}
	return out
}

// With is Allow with more rights, as it would have to be to allow them.
func (s Standing) With(rights []string) string {
	list := slices.Clone(rights)
	if allowed := s.Allowed(); allowed != AllowNone {
		list = append(list, strings.Split(allowed, "+")...)
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "+")
}

// ForbiddenRights says in words that a namespace does not allow what a descriptor asks
// for its instances; nil: it does. before is what the service had, which it may keep.
func ForbiddenRights(namespace string, s Standing, spec *api.Application, before func(service string) *api.Service) error {
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
	return Problemf(403, "over-rights", fmt.Sprintf("leave it out, or have it allowed by an administrator: verge namespace standing %s %s", namespace, s.textWith(s.With(rights))),
		"nothing was changed: the namespace does not allow that to its instances", "%s; namespace %s allows %s", strings.Join(over, "; "), namespace, s.Allowed())
}

// textWith is a standing as the command line takes it, with another Allow.
func (s Standing) textWith(allow string) string {
	s.Allow = allow
	return s.String()
}

// String is the standing as the command line takes it, with the weight that counts.
func (s Standing) String() string {
	text := fmt.Sprintf("weight=%d", max(1, s.Weight))
	if s.MaxPriority > 0 {
		text += fmt.Sprintf(",max-priority=%d", s.MaxPriority)
	}
	if s.Allow != "" {
		text += ",allow=" + s.Allow
	}
	if s.Hosts != "" {
		text += ",hosts=" + s.Hosts
	}
	if s.Ports != "" {
		text += ",ports=" + s.Ports
	}
	return text
}
