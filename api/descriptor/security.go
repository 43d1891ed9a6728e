package descriptor

import (
	"fmt"
	"slices"

	"github.com/verge-edge/verge/api"
)

// security checks that only a container has it, and that nothing is both added and
// dropped.
func (v *validator) security(path string, s *api.Service) {
	if s.Runtime != api.Container {
		for field, given := range map[string]bool{"security": !s.Security.IsZero(), "pull_secret": s.PullSecret != ""} {
			if _, said := v.seen[path+"."+field]; given || said {
				v.complain(path+"."+field, "only a container has it", "write runtime: container, or remove it")
			}
		}
		return
	}
	if s.PullSecret != "" {
		v.label(path+".pull_secret", s.PullSecret, "a secret", "registry")
	}
	for i, c := range s.Security.Add {
		at := fmt.Sprintf("%s.security.add[%d]", path, i)
		switch {
		case slices.Contains(s.Security.Drop, c):
			v.complain(at, c+" is also in drop", "remove one of them")
		case slices.Contains(s.Security.Add[:i], c):
			v.complain(at, c+" is listed twice", "remove one of them")
		}
	}
}
