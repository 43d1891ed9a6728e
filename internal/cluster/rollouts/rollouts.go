package rollouts

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

var (

	// Before the instances that a rollout has started, which would be updated again, and
	// before those of a run.
	Table = table.Add(&state.Schema, records.Kind{
		Prefix: Key, Fate: records.Holds,
		Drop: "a rollout of the service that is under way begins again from where its instances are; what people " +
			"said of it (pause, undo) is asked of the root",
	}, table.Rules[Record]{Stage: table.First, Leads: state.LeadsService})
	// UpTable is what the root is told of rollouts.
	UpTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyUp, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.RolloutReport]{Group: state.OfService[wire.RolloutReport]})
)

// Key + app.service is how far it is in being brought to another program.
const Key = "rolling."

// KeyUp + app.service: wire.RolloutReport, for the root.
const KeyUp = state.KeyUp + wire.ReportedRollout

// Record is a service that is being brought to another program. While it is, an
// instance that is placed again gets the program that it had, unless it was its turn:
// what is not proven yet is not spread by a worker that dies.
type Record struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Program is the api.Service.ProgramID that it is brought to, of Revision.
	Program  string `json:"program"`
	Revision uint64 `json:"revision"`
	// From is what those run whose turn has not come, of FromRevision; nil where the
	// rollout is over.
	From         *api.Service `json:"from,omitempty"`
	FromRevision uint64       `json:"from_revision,omitempty"`
	// Turned are the ordinals whose turn has come.
	Turned []wire.Span `json:"turned,omitempty"`
	// Surge is how many instances more than promised are to run, with ordinals from Base on.
	Surge int `json:"surge,omitempty"`
	Base  int `json:"base,omitempty"`
	// Began, and since when failures count: then, or when it was resumed.
	Began time.Time `json:"began"`
	Tried time.Time `json:"tried"`
	// Best and Moved as in rollout.State.
	Best  int       `json:"best,omitempty"`
	Moved time.Time `json:"moved"`
	// Step, Stepped, Trial and Share as in rollout.Action.
	Step    int         `json:"step,omitempty"`
	Stepped time.Time   `json:"stepped,omitzero"`
	Trial   bool        `json:"trial,omitempty"`
	Share   api.Percent `json:"share,omitempty"`
	// Failed is why it has failed. Paused: it was when it was looked at last.
	Failed string `json:"failed,omitempty"`
	Paused bool   `json:"paused,omitempty"`
	// Agreed is how many waves hooks have agreed to, Said what is to be known of that.
	Agreed int      `json:"agreed,omitempty"`
	Said   []string `json:"said,omitempty"`
	// Resumed as in wire.Hold, of the last that was heeded.
	Resumed uint64 `json:"resumed,omitempty"`
	// Updated as in wire.RolloutReport.
	Updated int       `json:"updated,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
}

// Open says whether a rollout has not come to its end.
func (r *Record) Open() bool { return r != nil && r.From != nil }

// turned says whether an instance is to be of the new program when it is placed.
func (r *Record) turned(ordinal int) bool {
	return ordinal >= wire.SurgeOrdinals ||
		slices.ContainsFunc(r.Turned, func(sp wire.Span) bool { return ordinal >= sp.From && ordinal < sp.To })
}

// On is a share with the instances of r that stand in for others.
func (r *Record) On(s *wire.Share) *wire.Share {
	if s == nil || !r.Open() || r.Surge <= 0 {
		return s
	}
	next := *s
	next.Ordinals = append(autoscale.Spans(state.Ordinals(s)), wire.Span{From: r.Base, To: r.Base + r.Surge})
	next.Min, next.Max = s.Min+r.Surge, s.Min+r.Surge
	return &next
}

// Promised is how many instances of a share there are to be besides those that stand in
// for others.
func Promised(s *wire.Share) int {
	n := s.Min
	for _, sp := range s.Ordinals {
		if sp.From >= wire.SurgeOrdinals {
			n -= sp.To - sp.From
		}
	}
	return n
}

// ShareFor is the share by which an instance is placed and ordered: that of the revision
// before where its turn in a rollout has not come. Nil where there is none.
func ShareFor(t *state.Tx, i *wire.Instance) *wire.Share {
	key := i.App + "." + i.Service
	s, r := t.Model.Shares[key], Table.Get(t.Rows, key)
	if s == nil || !r.Open() || r.turned(i.Ordinal) || i.Program == r.Program &&
		(i.State == wire.Running || i.State == wire.WorkerScheduled) {
		return s
	}
	if Pass(t).before == nil {
		Pass(t).before = map[string]*wire.Share{}
	}
	if old := Pass(t).before[key]; old != nil && old.Spec == r.From {
		return old
	}
	next := *s
	next.Spec, next.Revision = r.From, r.FromRevision
	Pass(t).before[key] = &next
	return &next
}

// SurgeBase is the first ordinal of those that stand in for others here. Clusters have
// different ones, so that routers can tell them apart.
func SurgeBase(m *state.Model) int {
	h := fnv.New32a()
	h.Write([]byte(m.Name))
	return wire.SurgeOrdinals + int(h.Sum32()%surgeBases)*wire.MaxSurge
}

const surgeBases = 10_000

// Begin begins the rollout of a service of which i runs another program, nil for none:
// it goes on with what there is of one that had not come to its end.
func Begin(t *state.Tx, key string, s *wire.Share, i *wire.Instance, now time.Time) *Record {
	r := Table.Get(t.Rows, key)
	program := t.Program(s.Spec)
	now = now.Round(0)
	hold := uint64(0)
	if s.Hold != nil {
		hold = s.Hold.Resumed
	}
	switch {
	case r.Open() && r.Program == program:
		next := *r
		next.Revision = s.Revision
		if next.Resumed < hold {
			next.Resumed, next.Failed, next.Tried, next.Moved, next.Stepped, next.Ended = hold, "", now, now,
				time.Time{}, time.Time{}
		}
		return &next
	case r.Open(): // another one before it was over
		t.Event(event.RolloutBegun, key, "rollout to revision %d begins, before the one to revision %d was over",
			s.Revision, r.Revision)
		return &Record{V: wire.Version, App: s.App, Service: s.Service, Program: program, Revision: s.Revision,
			From: r.From, FromRevision: r.FromRevision, Surge: r.Surge, Base: r.Base, Began: now, Tried: now,
			Moved: now, Resumed: hold}
	case i == nil:
		return nil
	}
	o := t.Model.Orders[i.Worker+"."+i.ID]
	if o == nil || o.Spec == nil {
		return nil // nobody knows what it is
	}
	t.Event(event.RolloutBegun, key, "rollout to revision %d begins", s.Revision)
	return &Record{V: wire.Version, App: s.App, Service: s.Service, Program: program, Revision: s.Revision,
		From: o.Spec, FromRevision: o.Revision, Base: SurgeBase(t.Model), Began: now, Tried: now, Moved: now,
		Resumed: hold}
}

// rules of the rollout of a share. What is brought back to what the others still are is not
// tried first, and nobody is asked about it.
func rulesOf(t *state.Tx, r *Record, s *wire.Share) rollout.Rules {
	rules := plainRules(t.Model, s)
	if !t.Model.Rehearsing && r.Open() && t.Program(r.From) != r.Program {
		rules.Asked = asked(t.Model, s)
		for _, st := range s.Spec.Rollout.Canary {
			rules.Steps = append(rules.Steps,
				rollout.Step{Share: st.Share.Of(), For: st.Lasts().Std(),
					Requests: uint64(st.Least())}) //nolint:gosec // it was checked
		}
	}
	return rules
}

// plainRules are those without a trial.
func plainRules(m *state.Model, s *wire.Share) rollout.Rules {
	n := Promised(s)
	r := rollout.Rules{Surge: min(s.Spec.Surge(n), wire.MaxSurge), Unavailable: s.Spec.Unavailable(n),
		MinReady: s.Spec.MinReady().Std(), Deadline: s.Spec.ProgressDeadline().Std(),
		MaxErrors: s.Spec.MaxErrors().Of()}
	if m.Rehearsing { // time stands still
		r.MinReady, r.Deadline, r.MaxErrors = 0, 0, 1
	}
	return r
}

// state of the rollout of a share.
func stateOf(t *state.Tx, r *Record, s *wire.Share) rollout.State {
	st := rollout.State{Promised: Promised(s), Failed: r.Failed, Best: r.Best, Moved: r.Moved, Step: r.Step,
		Stepped: r.Stepped, Agreed: r.Agreed}
	if w := Memory(t.Model).WaveWords[r.App+"."+r.Service]; w.Of(r) {
		st.Refused, st.Unheard = w.Refused, w.Silent
	}
	if s.Hold != nil && s.Hold.Paused {
		st.Held = "paused" + by(s.Hold)
	}
	if o := Memory(t.Model).Outcomes[r.App+"."+r.Service]; o.of(r) {
		st.Before, st.After, st.Asked = o.before, o.after, o.since(r)
	}
	for _, o := range state.Ordinals(s) {
		if i := t.Inst(state.InstanceID(s.App, s.Service, o)); i != nil {
			st.Units = append(st.Units, unit(t, i, r))
		}
	}
	return st
}

// Decide takes a rollout one step further. What is to be updated now is returned.
func Decide(t *state.Tx, key string, r *Record, s *wire.Share, now time.Time) []int {
	held := s.Hold != nil && s.Hold.Paused
	if r.Paused && !held {
		r.Moved = now.Round(0) // what was paused is not late
	}
	r.Paused = held
	rules := rulesOf(t, r, s)
	applyWord(t, key, r)
	if begun := !rules.Asked || r.Agreed > len(rules.Steps); begun && !held && r.Failed == "" &&
		r.Step >= len(rules.Steps) { // those that are more than before begin with it: nobody misses them
		for _, o := range state.Ordinals(s) {
			if i := t.Inst(state.InstanceID(s.App, s.Service, o)); i != nil && i.Incarnation == 0 {
				r.turn(o)
			}
		}
	}
	a := rollout.Decide(rules, stateOf(t, r, s), now)
	sayTrial(t, key, r, a, len(rules.Steps))
	r.Best, r.Moved, r.Updated = a.Best, a.Moved.Round(0), a.Updated
	if a.Failed != "" && r.Failed == "" {
		r.Failed = state.Cut(a.Failed, state.MaxWords)
		r.Ended = now.Round(0)
		t.Event(event.RolloutFailed, key, "rollout to revision %d has failed: %s", r.Revision, r.Failed)
	}
	if a.Ask > 0 {
		askWave(t, key, r, s, a.Ask, a.Waves, len(rules.Steps))
	}
	if a.Done {
		t.Event(event.RolloutDone, key, "rollout to revision %d is done: %s", r.Revision,
			localedit.CountInstances(Promised(s)))
		r.From, r.Turned, r.Surge, r.Failed, r.Paused, r.Ended = nil, nil, 0, "", false, now.Round(0)
		r.Step, r.Stepped, r.Trial, r.Share, r.Agreed = 0, time.Time{}, false, 0, 0
		return nil
	}
	r.Surge = a.Surge
	for _, o := range a.Update {
		r.turn(o)
	}
	return a.Update
}

func by(h *wire.Hold) string {
	out := ""
	if h.By != "" {
		out += " by " + h.By
	}
	if h.Why != "" {
		out += ": " + h.Why
	}
	return out
}

// turn notes that the turn of an ordinal has come.
func (r *Record) turn(ordinal int) {
	if r.turned(ordinal) {
		return
	}
	list := []int{ordinal}
	for _, sp := range r.Turned {
		for o := sp.From; o < sp.To; o++ {
			list = append(list, o)
		}
	}
	r.Turned = autoscale.Spans(list)
}

// unit is an instance as a rollout sees it.
func unit(t *state.Tx, i *wire.Instance, r *Record) rollout.Unit {
	u := rollout.Unit{Name: fmt.Sprintf("%s.%d", i.Service, i.Ordinal), Ordinal: i.Ordinal, Extra: state.StandIn(i),
		Updated: i.Program == r.Program, Since: i.ReadyAt, Why: i.Reason}
	if u.Extra {
		u.Name += " (beyond those promised)"
	}
	switch i.State {
	case wire.Terminated: // completed, by this program (fulfil)
		u.Placed, u.Ready, u.Updated = true, true, true
		return u
	case wire.Running, wire.WorkerScheduled:
		u.Placed, u.Ready = i.Worker != "", autoscale.SettledIn(i) && (i.State == wire.Running || u.Updated)
		u.Up = i.State == wire.Running && i.Ready && !i.Unreachable && !i.Draining
		u.Busy = state.UnderWay(i) || fleet.Pass(t).Waits[i.ID] || i.Unreachable
	default:
		u.Updated = r.turned(i.Ordinal) // it is to be, when it is placed
	}
	if slow, long := slow(t, i); u.Updated && slow != "" {
		u.Ready, u.Why = false, slow
		if long {
			u.Failed = slow
			return u
		}
	}
	if u.Updated {
		if u.Failed = gaveUp(i, r.Tried); u.Failed != "" {
			u.Placed = true // there is nothing to wait for
		}
	}
	return u
}

// gaveUp is why a worker has given up what a rollout has started of an instance, "" if
// none did. That a worker had no room for it says nothing about the program.
func gaveUp(i *wire.Instance, since time.Time) string {
	for _, h := range slices.Backward(i.History) {
		switch {
		case h.Because() == wire.CauseUpdating, h.At.Before(since):
			return ""
		case h.To == wire.Failed && strings.HasPrefix(h.Tier, "worker/") && h.Because() != wire.CauseRefused:
			return h.Why
		}
	}
	return ""
}

// Stuck reports whether i belongs to a rollout that has failed, which does not try its own
// instances again.
func Stuck(t *state.Tx, i *wire.Instance) bool {
	r := Table.Get(t.Rows, i.App+"."+i.Service)
	return state.StandIn(i) && r.Open() && r.Failed != "" && i.State == wire.Failed
}

// Report derives what the root is told about rollouts, and forgets those of
// services that are gone.
func Report(t *state.Tx) {
	want := map[string]*wire.RolloutReport{}
	for key, r := range records.Merged(Table.Rows(t.Model.DB), Table.Changes(t.Rows)) {
		s := t.Model.Shares[key]
		if s == nil {
			Table.Put(t.Rows, key, nil)
			continue
		}
		v := view(t, r, s)
		want[key] = &v
	}
	localedit.Diff(UpTable.Rows(t.Model.DB), want, UpTable.Changes(t.Rows))
}

// view is a rollout as people see it.
func view(t *state.Tx, r *Record, s *wire.Share) wire.RolloutReport {
	v := wire.RolloutReport{
		V: wire.Version, Cluster: t.Model.Name, App: r.App, Service: r.Service, Revision: r.Revision,
		From: r.FromRevision, Program: r.Program,
		Phase: wire.RolloutRolling, Promised: Promised(s), Updated: r.Updated, Surge: r.Surge, Began: r.Began,
		Ended: r.Ended, Said: r.Said,
	}
	if !r.Open() {
		v.Phase, v.Updated = wire.RolloutDone, v.Promised
		return v
	}
	rules := rulesOf(t, r, s)
	v.Why = state.Cut(rollout.Decide(rules, stateOf(t, r, s), t.Now).Why, state.MaxWords)
	if v.Trial, v.Share = r.Trial, r.Share; r.Step < len(rules.Steps) {
		v.Step, v.Steps, v.Stepped = r.Step+1, len(rules.Steps), r.Stepped
	}
	if o := Memory(t.Model).Outcomes[r.App+"."+r.Service]; o.of(r) {
		v.Old, v.New = o.shown[0], o.shown[1]
	}
	switch {
	case r.Failed != "":
		v.Phase = wire.RolloutFailed
	case s.Hold != nil && s.Hold.Paused:
		v.Phase = wire.RolloutPaused
	}
	return v
}

// UntilRolled is the time until a rollout may go on by time alone; 0: it waits for
// something to be heard.
func UntilRolled(m *state.Model, now time.Time) (least time.Duration) {
	for key, r := range Table.Rows(m.DB) {
		s := m.Shares[key]
		if s == nil || !r.Open() || r.Failed != "" {
			continue
		}
		if steps := s.Spec.Rollout.Canary; r.Step < len(steps) && !r.Stepped.IsZero() {
			if d := r.Stepped.Add(steps[r.Step].Lasts().Std()).Sub(now); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
		for _, o := range state.Ordinals(s) {
			i := m.Insts[state.InstanceID(s.App, s.Service, o)]
			if i == nil || !i.Ready || i.ReadyAt.IsZero() {
				continue
			}
			if d := i.ReadyAt.Add(s.Spec.MinReady().Std()).Sub(now); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
	}
	return least
}

// BusyRolling reports whether a rollout goes on, so that time matters.
func BusyRolling(m *state.Model) bool {
	for key, r := range Table.Rows(m.DB) {
		if s := m.Shares[key]; s != nil && r.Open() && r.Failed == "" && (s.Hold == nil || !s.Hold.Paused) {
			return true
		}
	}
	return false
}

// Known is what this process knows beside what is stored.
type Known struct {
	Paces    map[wire.InstanceID]Pace // of the instances of services that are rolled out
	Outcomes map[string]*Outcomes     // by application and service
	// Gates are the namespaces in which hooks of this cluster are asked before waves of
	// rollouts, see hooks.Keeper.Gates. WaveWords are what hooks have said, by application
	// and service.
	Gates     map[string]string
	WaveWords map[string]*WaveWord
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known {
		return &Known{Paces: map[wire.InstanceID]Pace{}, Outcomes: map[string]*Outcomes{},
			WaveWords: map[string]*WaveWord{}}
	},
	Clone: func(k *Known) *Known {
		// A plan goes by none of what instances and hooks answer: it changes all the time.
		return &Known{Paces: maps.Clone(k.Paces), Gates: maps.Clone(k.Gates)}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	before map[string]*wire.Share // the shares of the revision before, see ShareFor
	// Waves about which hooks are to be asked, by application and service.
	Waves map[string]*WaveAsk
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch {
	return scratch.Of(t.Rows, func() *Scratch { return &Scratch{Waves: map[string]*WaveAsk{}} })
}
