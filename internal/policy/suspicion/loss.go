package suspicion

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// maxAffected bounds the named instances.
const maxAffected = 5

// Loss has the instances that the silence of a worker affects, as they were.
type Loss struct {
	Since time.Time
	Was   map[wire.InstanceID]wire.Placement
	// Cluster of the instances.
	Cluster string
}

// Add adds an affected instance.
func (l *Loss) Add(i *wire.Instance) {
	if l.Was == nil {
		l.Was = map[wire.InstanceID]wire.Placement{}
	}
	l.Was[i.ID] = wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation}
}

// Affected is "2 instances affected (iot.api.1, iot.db.0)".
func (l *Loss) Affected() string {
	ids := slices.Sorted(maps.Keys(l.Was))
	more := ""
	if n := len(ids) - maxAffected; n > 0 {
		ids, more = ids[:maxAffected], fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s affected (%s%s)", wire.Count(len(l.Was), "instance"), strings.Join(ids, ", "), more)
}

// Over says what happened to the affected instances, once all of them answer or are deleted. get
// returns the present record of an instance, nil if there is none.
func (l *Loss) Over(get func(wire.InstanceID) *wire.Instance, now time.Time) (what string, over bool) {
	replaced, back := 0, 0
	for id, was := range l.Was {
		i := get(id)
		switch {
		case i == nil, i.State == wire.Terminated:
		case i.Asleep && !i.Unreachable, i.State == wire.Running && i.Ready && !i.Unreachable:
			if i.Incarnation != was.Incarnation || i.Cluster != l.Cluster {
				replaced++
			} else {
				back++
			}
		default:
			return "", false
		}
	}
	took := now.Sub(l.Since).Round(time.Second)
	switch {
	case replaced == 0 && back == 0:
		what = "wanted no more"
	case back == 0:
		what = fmt.Sprintf("replaced in %s", took)
	case replaced == 0:
		what = fmt.Sprintf("reachable again after %s", took)
	default:
		what = fmt.Sprintf("%d replaced and %d reachable again after %s", replaced, back, took)
	}
	return l.Affected() + ", " + what, true
}
