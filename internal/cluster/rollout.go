package cluster

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/wire"
)

// keyRolling + app.service is how far it is in being brought to another program.
const keyRolling = "rolling."

// keyUpRollout + app.service: wire.RolloutReport, for the root.
const keyUpRollout = state.KeyUp + wire.ReportedRollout

// rolling is a service that is being brought to another program. While it is, an
// instance that is placed again gets the program that it had, unless it was its turn:
// what is not proven yet is not spread by a worker that dies.
type rolling struct {
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

// open says whether a rollout has not come to its end.
func (r *rolling) open() bool { return r != nil && r.From != nil }

// turned says whether an instance is to be of the new program when it is placed.
func (r *rolling) turned(ordinal int) bool {
	return ordinal >= wire.SurgeOrdinals || slices.ContainsFunc(r.Turned, func(sp wire.Span) bool { return ordinal >= sp.From && ordinal < sp.To })
}

// on is a share with the instances of r that stand in for others.
func (r *rolling) on(s *wire.Share) *wire.Share {
	if s == nil || !r.open() || r.Surge <= 0 {
		return s
	}
	next := *s
	next.Ordinals = append(spans(ordinals(s)), wire.Span{From: r.Base, To: r.Base + r.Surge})
	next.Min, next.Max = s.Min+r.Surge, s.Min+r.Surge
	return &next
}

// promised is how many instances of a share there are to be besides those that stand in
// for others.
func promised(s *wire.Share) int {
	n := s.Min
	for _, sp := range s.Ordinals {
		if sp.From >= wire.SurgeOrdinals {
			n -= sp.To - sp.From
		}
	}
	return n
}

// rollOf is the rollout of a service as this tx leaves it, nil for none.
func (t *tx) rollOf(key string) *rolling {
	if r, ok := t.rolls[key]; ok {
		return r
	}
	return t.m.rolls[key]
}

// shareFor is the share by which an instance is placed and ordered: that of the revision
// before where its turn in a rollout has not come. Nil where there is none.
func (t *tx) shareFor(i *wire.Instance) *wire.Share {
	key := i.App + "." + i.Service
	s, r := t.m.Shares[key], t.rollOf(key)
	if s == nil || !r.open() || r.turned(i.Ordinal) || i.Program == r.Program && (i.State == wire.Running || i.State == wire.WorkerScheduled) {
		return s
	}
	if t.before == nil {
		t.before = map[string]*wire.Share{}
	}
	if old := t.before[key]; old != nil && old.Spec == r.From {
		return old
	}
	next := *s
	next.Spec, next.Revision = r.From, r.FromRevision
	t.before[key] = &next
	return &next
}

// surgeBase is the first ordinal of those that stand in for others here. Clusters have
// different ones, so that routers can tell them apart.
func (m *model) surgeBase() int {
	h := fnv.New32a()
	h.Write([]byte(m.Name))
	return wire.SurgeOrdinals + int(h.Sum32()%surgeBases)*wire.MaxSurge
}

const surgeBases = 10_000

// standIn: an instance that runs beyond those promised.
func standIn(i *wire.Instance) bool { return i.Ordinal >= wire.SurgeOrdinals }

// open begins the rollout of a service of which i runs another program, nil for none:
// it goes on with what there is of one that had not come to its end.
func (t *tx) beginRoll(key string, s *wire.Share, i *wire.Instance, now time.Time) *rolling {
	r := t.rollOf(key)
	program := t.Program(s.Spec)
	now = now.Round(0)
	hold := uint64(0)
	if s.Hold != nil {
		hold = s.Hold.Resumed
	}
	switch {
	case r.open() && r.Program == program:
		next := *r
		next.Revision = s.Revision
		if next.Resumed < hold {
			next.Resumed, next.Failed, next.Tried, next.Moved, next.Stepped, next.Ended = hold, "", now, now, time.Time{}, time.Time{}
		}
		return &next
	case r.open(): // another one before it was over
		t.Event("service/"+key, "rollout to revision %d begins, before the one to revision %d was over", s.Revision, r.Revision)
		return &rolling{V: wire.Version, App: s.App, Service: s.Service, Program: program, Revision: s.Revision, From: r.From, FromRevision: r.FromRevision, Surge: r.Surge, Base: r.Base, Began: now, Tried: now, Moved: now, Resumed: hold}
	case i == nil:
		return nil
	}
	o := t.m.Orders[i.Worker+"."+i.ID]
	if o == nil || o.Spec == nil {
		return nil // nobody knows what it is
	}
	t.Event("service/"+key, "rollout to revision %d begins", s.Revision)
	return &rolling{V: wire.Version, App: s.App, Service: s.Service, Program: program, Revision: s.Revision, From: o.Spec, FromRevision: o.Revision, Base: t.m.surgeBase(), Began: now, Tried: now, Moved: now, Resumed: hold}
}

// rules of the rollout of a share. What is brought back to what the others still are is not
// tried first, and nobody is asked about it.
func (t *tx) rollRules(r *rolling, s *wire.Share) rollout.Rules {
	rules := t.m.plainRules(s)
	if !t.m.Rehearsing && r.open() && t.Program(r.From) != r.Program {
		rules.Asked = t.m.asked(s)
		for _, st := range s.Spec.Rollout.Canary {
			rules.Steps = append(rules.Steps, rollout.Step{Share: st.Share.Of(), For: st.Lasts().Std(), Requests: uint64(st.Least())}) //nolint:gosec // it was checked
		}
	}
	return rules
}

// plainRules are those without a trial.
func (m *model) plainRules(s *wire.Share) rollout.Rules {
	n := promised(s)
	r := rollout.Rules{Surge: min(s.Spec.Surge(n), wire.MaxSurge), Unavailable: s.Spec.Unavailable(n), MinReady: s.Spec.MinReady().Std(), Deadline: s.Spec.ProgressDeadline().Std(), MaxErrors: s.Spec.MaxErrors().Of()}
	if m.Rehearsing { // time stands still
		r.MinReady, r.Deadline, r.MaxErrors = 0, 0, 1
	}
	return r
}

// state of the rollout of a share.
func (t *tx) rollState(r *rolling, s *wire.Share) rollout.State {
	st := rollout.State{Promised: promised(s), Failed: r.Failed, Best: r.Best, Moved: r.Moved, Step: r.Step, Stepped: r.Stepped, Agreed: r.Agreed}
	if w := t.m.waveWords[r.App+"."+r.Service]; w.of(r) {
		st.Refused, st.Unheard = w.refused, w.silent
	}
	if s.Hold != nil && s.Hold.Paused {
		st.Held = "paused" + by(s.Hold)
	}
	if o := t.m.outcomes[r.App+"."+r.Service]; o.of(r) {
		st.Before, st.After, st.Asked = o.before, o.after, o.since(r)
	}
	for _, o := range ordinals(s) {
		if i := t.Inst(instanceID(s.App, s.Service, o)); i != nil {
			st.Units = append(st.Units, t.unit(i, r))
		}
	}
	return st
}

// decideRoll takes a rollout one step further. What is to be updated now is returned.
func (t *tx) decideRoll(key string, r *rolling, s *wire.Share, now time.Time) []int {
	held := s.Hold != nil && s.Hold.Paused
	if r.Paused && !held {
		r.Moved = now.Round(0) // what was paused is not late
	}
	r.Paused = held
	rules := t.rollRules(r, s)
	t.heedWord(key, r)
	if begun := !rules.Asked || r.Agreed > len(rules.Steps); begun && !held && r.Failed == "" && r.Step >= len(rules.Steps) { // those that are more than before begin with it: nobody misses them
		for _, o := range ordinals(s) {
			if i := t.Inst(instanceID(s.App, s.Service, o)); i != nil && i.Incarnation == 0 {
				r.turn(o)
			}
		}
	}
	a := rollout.Decide(rules, t.rollState(r, s), now)
	t.sayTrial(key, r, a, len(rules.Steps))
	r.Best, r.Moved, r.Updated = a.Best, a.Moved.Round(0), a.Updated
	if a.Failed != "" && r.Failed == "" {
		r.Failed = cut(a.Failed, maxWords)
		r.Ended = now.Round(0)
		t.Event("service/"+key, "rollout to revision %d has failed: %s", r.Revision, r.Failed)
	}
	if a.Ask > 0 {
		t.askWave(key, r, s, a.Ask, a.Waves, len(rules.Steps))
	}
	if a.Done {
		t.Event("service/"+key, "rollout to revision %d is done: %s", r.Revision, instances(promised(s)))
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
func (r *rolling) turn(ordinal int) {
	if r.turned(ordinal) {
		return
	}
	list := []int{ordinal}
	for _, sp := range r.Turned {
		for o := sp.From; o < sp.To; o++ {
			list = append(list, o)
		}
	}
	r.Turned = spans(list)
}

// putRoll notes how far a rollout is, nil for none.
func (t *tx) putRoll(key string, r *rolling) {
	old := t.m.rolls[key]
	if r == nil && old == nil || r != nil && old != nil && records.Same(old, r) {
		delete(t.rolls, key)
		return
	}
	t.rolls[key] = r
}

// unit is an instance as a rollout sees it.
func (t *tx) unit(i *wire.Instance, r *rolling) rollout.Unit {
	u := rollout.Unit{Name: fmt.Sprintf("%s.%d", i.Service, i.Ordinal), Ordinal: i.Ordinal, Extra: standIn(i), Updated: i.Program == r.Program, Since: i.ReadyAt, Why: i.Reason}
	if u.Extra {
		u.Name += " (beyond those promised)"
	}
	switch i.State {
	case wire.Terminated: // completed, by this program (fulfil)
		u.Placed, u.Ready, u.Updated = true, true, true
		return u
	case wire.Running, wire.WorkerScheduled:
		u.Placed, u.Ready = i.Worker != "", settledIn(i) && (i.State == wire.Running || u.Updated)
		u.Up = i.State == wire.Running && i.Ready && !i.Unreachable && !i.Draining
		u.Busy = underWay(i) || t.waits[i.ID] || i.Unreachable
	default:
		u.Updated = r.turned(i.Ordinal) // it is to be, when it is placed
	}
	if slow, long := t.slow(i); u.Updated && slow != "" {
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

// stuck: a rollout that has failed does not try its own instances again.
func (t *tx) stuck(i *wire.Instance) bool {
	r := t.rollOf(i.App + "." + i.Service)
	return standIn(i) && r.open() && r.Failed != "" && i.State == wire.Failed
}

// reportRolls derives what the root is told about rollouts, and forgets those of
// services that are gone.
func (t *tx) reportRolls() {
	want := map[string]*wire.RolloutReport{}
	for key, r := range records.Merged(t.m.rolls, t.rolls) {
		s := t.m.Shares[key]
		if s == nil {
			t.putRoll(key, nil)
			continue
		}
		v := t.rollView(r, s)
		want[key] = &v
	}
	diff(t.m.upRolls, want, t.upRolls)
}

// rollView is a rollout as people see it.
func (t *tx) rollView(r *rolling, s *wire.Share) wire.RolloutReport {
	v := wire.RolloutReport{
		V: wire.Version, Cluster: t.m.Name, App: r.App, Service: r.Service, Revision: r.Revision, From: r.FromRevision, Program: r.Program,
		Phase: wire.RolloutRolling, Promised: promised(s), Updated: r.Updated, Surge: r.Surge, Began: r.Began, Ended: r.Ended, Said: r.Said,
	}
	if !r.open() {
		v.Phase, v.Updated = wire.RolloutDone, v.Promised
		return v
	}
	rules := t.rollRules(r, s)
	v.Why = cut(rollout.Decide(rules, t.rollState(r, s), t.Now).Why, maxWords)
	if v.Trial, v.Share = r.Trial, r.Share; r.Step < len(rules.Steps) {
		v.Step, v.Steps, v.Stepped = r.Step+1, len(rules.Steps), r.Stepped
	}
	if o := t.m.outcomes[r.App+"."+r.Service]; o.of(r) {
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

// untilRolled is the time until a rollout may go on by time alone; 0: it waits for
// something to be heard.
func (m *model) untilRolled(now time.Time) (least time.Duration) {
	for key, r := range m.rolls {
		s := m.Shares[key]
		if s == nil || !r.open() || r.Failed != "" {
			continue
		}
		if steps := s.Spec.Rollout.Canary; r.Step < len(steps) && !r.Stepped.IsZero() {
			if d := r.Stepped.Add(steps[r.Step].Lasts().Std()).Sub(now); d > 0 && (least == 0 || d < least) {
				least = d
			}
		}
		for _, o := range ordinals(s) {
			i := m.Insts[instanceID(s.App, s.Service, o)]
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

// busyRolling: a rollout goes on, so that time matters.
func (m *model) busyRolling() bool {
	for key, r := range m.rolls {
		if s := m.Shares[key]; s != nil && r.open() && r.Failed == "" && (s.Hold == nil || !s.Hold.Paused) {
			return true
		}
	}
	return false
}
