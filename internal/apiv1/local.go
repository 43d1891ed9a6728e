package apiv1

import (
	"fmt"

	"github.com/verge-edge/verge/internal/wire"
)

// ConflictProblems words conflicts for a list of problems.
func ConflictProblems(list []wire.Conflict) []string {
	const most = 10
	var out []string
	for _, c := range list[:min(len(list), most)] {
		out = append(out, fmt.Sprintf("conflict %s at cluster %s: the local change of %s (%s, by %s) gave way to the root (%s)",
			c.ID, c.Cluster, c.Key(), c.Change, c.By, c.Root))
	}
	if more := len(list) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more conflicts between changes at sites and the root", more))
	}
	return out
}

// LocalView is all that was changed at a site, and what of it gave way.
type LocalView struct {
	Changes   []wire.LocalChange `json:"changes"`
	Conflicts []wire.Conflict    `json:"conflicts"`
}
