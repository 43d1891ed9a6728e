package rollouts

import (
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/wire"
)

// Outcomes are how the instances of a service have answered while it is rolled out, by the
// word of their workers: those of the new revision and those of the one before. They are of
// this process, and begin anew with another one.
type Outcomes struct {
	// program and tried say which rollout they are of, and since which begin of it.
	program       string
	tried         time.Time
	before, after rollout.Count
	// asked is after since step was stepped.
	step    int
	stepped time.Time
	asked   uint64
	// shown is what people are shown of both sides, of shownAt: each time it is another it
	// is stored on its way to the root.
	shown   [2]*wire.RolloutSide
	shownAt time.Time
}

// showEvery is how old what is shown may be.
const showEvery = 10 * time.Second

// since is how many requests the new revision has answered in the step of a trial.
func (o *Outcomes) since(r *Record) uint64 {
	if o.step != r.Step || !o.stepped.Equal(r.Stepped) {
		return 0
	}
	return o.asked
}

// of says whether these are the outcomes of r.
func (o *Outcomes) of(r *Record) bool {
	return o != nil && r.Open() && o.program == r.Program && o.tried.Equal(r.Tried)
}

// Watched says whether it is counted how instances of a service answer while it is rolled
// out.
func Watched(s *wire.Share) bool {
	return s.Spec.ForRequests() && (s.Spec.SLO != nil || s.Spec.MaxErrors() < api.AllPercent)
}

// Answered takes what a worker says of how its instances have answered in a span, and
// reports whether that is news for a rollout. What was asked of an instance before it was
// ready belongs to the one before it.
func Answered(m *state.Model, worker string, list []wire.InstanceAnswers, span time.Duration,
	now time.Time) (news bool) {
	for key := range Memory(m).Outcomes {
		if !Table.Rows(m.DB)[key].Open() {
			delete(Memory(m).Outcomes, key)
		}
	}
	for _, a := range list {
		key := a.Instance[:max(0, strings.LastIndexByte(a.Instance, '.'))]
		i, r, s := m.Insts[a.Instance], Table.Rows(m.DB)[key], m.Shares[key]
		if i == nil || i.Worker != worker || i.State != wire.Running || !i.Ready || s == nil || !r.Open() ||
			r.Failed != "" {
			continue
		}
		// What stands in was not there before, and its worker's counts of what had its ID
		// then have ended with that. Its first answers may be all for a while: a router
		// leaves alone what fails a few times in a row.
		if own := state.StandIn(i) && i.Program == r.Program; !own && !i.ReadyAt.IsZero() && now.Sub(i.ReadyAt) < span {
			continue
		}
		o := Memory(m).Outcomes[key]
		if !o.of(r) {
			o = &Outcomes{program: r.Program, tried: r.Tried}
			Memory(m).Outcomes[key] = o
		}
		side := &o.before
		if i.Program == r.Program {
			side = &o.after
		}
		side.Add(rollout.Count{Requests: min(a.Answered, MaxAnswers), Failed: min(a.Failed, MaxAnswers)})
		rollout.Fade(&o.before, &o.after)
		if side == &o.after {
			if o.step != r.Step || !o.stepped.Equal(r.Stepped) {
				o.step, o.stepped, o.asked = r.Step, r.Stepped, 0
			}
			o.asked += min(a.Answered, MaxAnswers)
		}
		worse := rollout.Worse(s.Spec.MaxErrors().Of(), o.before, o.after) != ""
		enough := r.Step < len(s.Spec.Rollout.Canary) &&
			uint64(s.Spec.Rollout.Canary[r.Step].Least()) <= o.asked //nolint:gosec // it was checked
		news = news || worse || enough
		if age := now.Sub(o.shownAt); worse || age >= showEvery || age < 0 {
			o.shownAt, news = now, true
			o.shown = [2]*wire.RolloutSide{Side(m, o.before, r, s, false), Side(m, o.after, r, s, true)}
		}
	}
	return news
}

// Side is one side of a rollout as people see it.
func Side(m *state.Model, c rollout.Count, r *Record, s *wire.Share, after bool) *wire.RolloutSide {
	v := &wire.RolloutSide{Requests: c.Requests, Failed: c.Failed}
	n, sum := 0, time.Duration(0)
	for _, o := range state.Ordinals(s) {
		i := m.Insts[state.InstanceID(s.App, s.Service, o)]
		if i == nil || (i.Program == r.Program) != after {
			continue
		}
		if p, ok := Memory(m).Paces[i.ID]; ok && p.incarnation == i.Incarnation {
			sum += min(p.exec, time.Hour)
			n++
		}
	}
	if n > 0 {
		v.Exec = api.Duration((sum / time.Duration(n)).Round(time.Microsecond))
	}
	return v
}

// Trial says whether requests come to an instance as to one of a revision that is tried, and
// which share of them those get together. What stands in is never what was promised.
func Trial(t *state.Tx, i *wire.Instance) (bool, api.Percent) {
	r := Table.Get(t.Rows, i.App+"."+i.Service)
	if !r.Open() || !r.Trial || i.Program != r.Program && !state.StandIn(i) {
		return false, 0
	}
	return true, r.Share
}

// sayTrial notes how far a trial is, and tells when it goes on or is over.
func sayTrial(t *state.Tx, key string, r *Record, a rollout.Action, steps int) {
	share := api.Percent(a.Share*float64(api.AllPercent) + 0.5)
	switch {
	case a.Failed != "" && r.Failed == "" && r.Trial && a.Trial:
		t.Event(event.RolloutStep, key, "requests go back to revision %d: %s of them still go to revision %d",
			r.FromRevision, share, r.Revision)
	case steps > 0 && a.Step >= steps && r.Step < steps:
		t.Event(event.RolloutStep, key, "all %d steps on a share of the requests have gone well: the others are "+
			"brought to revision %d", steps, r.Revision)
	case a.Step < steps && !a.Stepped.IsZero() && !a.Stepped.Equal(r.Stepped):
		t.Event(event.RolloutStep, key, "step %d of %d: %s of the requests go to revision %d", a.Step+1, steps, share,
			r.Revision)
	}
	r.Step, r.Stepped, r.Trial, r.Share = a.Step, a.Stepped.Round(0), a.Trial, share
	if !a.Trial {
		r.Share = 0
	}
}

// MaxAnswers of one instance in one message: more than one can give.
const MaxAnswers = 1 << 24
