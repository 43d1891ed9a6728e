package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Values of Standing.Allow besides names of rights.
const (
	AllowAll  = "all"
	AllowNone = "none"
)

// Allowed is Allow with its default: a container may ask for a writable root, which harms
// nobody else.
func (s Standing) Allowed() string { return cmp.Or(s.Allow, api.RightWritableRoot) }

// Forbids returns those of rights that the namespace does not allow.
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

// With is Allow as it would have to be to allow more rights.
func (s Standing) With(rights []string) string {
	list := slices.Clone(rights)
	if allowed := s.Allowed(); allowed != AllowNone {
		list = append(list, strings.Split(allowed, "+")...)
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "+")
}

// String is the standing as the command line takes it, with the effective weight.
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
