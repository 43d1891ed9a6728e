package rollouts

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// tooSlowFor is how long an instance of a new revision may be slower than the objective
// of its service before its rollout has failed; what was said of it counts for paceLasts.
const (
	tooSlowFor = 10 * time.Second
	paceLasts  = 15 * time.Second
)

// Pace is how fast an instance answers, as a router said last.
type Pace struct {
	incarnation int
	exec        time.Duration
	at          time.Time
	slow        time.Time // since when it is above the objective; zero: it is not
}

// Clocked notes how fast the instances of a service answer while it is rolled out, and
// reports whether one became too slow, or is no more.
func Clocked(m *state.Model, key string, list []wire.ReplicaDemand, now time.Time) (news bool) {
	r, s := Table.Rows(m.DB)[key], m.Shares[key]
	if !r.Open() || s == nil || !Watched(s) {
		for id := range Memory(m).Paces {
			if strings.HasPrefix(id, key+".") {
				delete(Memory(m).Paces, id)
			}
		}
		return false
	}
	for _, d := range list {
		i := m.Insts[d.Instance]
		if i == nil || d.Exec <= 0 || i.App+"."+i.Service != key {
			continue
		}
		p, old := Pace{incarnation: i.Incarnation, exec: d.Exec.Std(), at: now}, Memory(m).Paces[i.ID]
		if s.Spec.SLO != nil && d.Exec > *s.Spec.SLO {
			if p.slow = now; old.incarnation == i.Incarnation && !old.slow.IsZero() && now.Sub(old.at) <= paceLasts {
				p.slow = old.slow
			}
		}
		news = news || p.slow.IsZero() != old.slow.IsZero() || !p.slow.IsZero() && now.Sub(p.slow) >= tooSlowFor
		Memory(m).Paces[i.ID] = p
	}
	return news
}

// slow says that an instance of a new revision takes longer than the objective, and
// longer than each of the revision before, which may be slow for the same reason; ""
// where that is not known. long: for so long that this is no accident.
func slow(t *state.Tx, i *wire.Instance) (why string, long bool) {
	key := i.App + "." + i.Service
	s, p := t.Model.Shares[key], Memory(t.Model).Paces[i.ID]
	if s == nil || s.Spec.SLO == nil || p.slow.IsZero() || p.incarnation != i.Incarnation ||
		t.Now.Sub(p.at) > paceLasts {
		return "", false
	}
	r := Table.Get(t.Rows, key)
	for _, o := range state.Ordinals(s) {
		other := t.Inst(state.InstanceID(s.App, s.Service, o))
		if other == nil || other.Program == r.Program {
			continue
		}
		if q, ok := Memory(t.Model).Paces[other.ID]; ok && q.incarnation == other.Incarnation &&
			t.Now.Sub(q.at) <= paceLasts && q.exec >= p.exec {
			return "", false
		}
	}
	return fmt.Sprintf("a request takes %s, the objective (slo) is %s", api.Duration(p.exec.Round(time.Millisecond)),
		*s.Spec.SLO), t.Now.Sub(p.slow) >= tooSlowFor
}
