package upgrades

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// The programs of an upgrade are objects of the cluster. A worker fetches the one that it is
// told to be, and keeps by itself what it was before; so those of the upgrade that there is
// are needed, also when it is done, since what was skipped may be upgraded later. Others go.

const (
	// keepPrograms is how long a program is kept that no upgrade needs: after it was put,
	// and after the upgrade began that is for another one.
	keepPrograms = 24 * time.Hour
	// SweepEvery is the time between two looks at them.
	SweepEvery = time.Hour
)

// Spare are the programs among objects that no upgrade needs, and when they go.
func Spare(m *state.Model, list []apiv1.ObjectView) (programs []apiv1.ObjectView, goes []time.Time) {
	needed := map[string]bool{}
	var began time.Time
	if u := Current(m); u != nil {
		began = u.At
		for i := range u.Request.Programs {
			needed[u.Request.Programs[i].Object()] = true
		}
	}
	for _, o := range list {
		// Whatever else somebody has put there is theirs.
		if o.Namespace != wire.ProgramsNamespace || o.Copy || o.Problem != "" || needed[o.Name] ||
			!strings.HasPrefix(o.Name, (&wire.Program{}).Object()) {
			continue
		}
		at := o.Updated
		if began.After(at) {
			at = began
		}
		programs, goes = append(programs, o), append(goes, at.Add(keepPrograms))
	}
	return programs, goes
}
