package upgrades

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var (
	// Table is the upgrade; there is one at a time.
	Table = table.Add(&state.Schema, records.Kind{
		Prefix: Key + Name, Fate: records.Aside,
		Drop: "the upgrade of the workers has ended: what was brought stays, begin it again (verge upgrade)",
	}, table.Rules[Record]{Single: true})
	// WorkerTable is how far each worker is.
	WorkerTable = table.Add[WorkerRecord](&state.Schema, records.Kind{
		Prefix: KeyWorker, Fate: records.Holds, Drop: "how far the worker is with the upgrade is asked of it again",
	})
)

// Current of the workers; nil where there was none.
func Current(m *state.Model) *Record { return Table.One(m.DB) }

// Where an upgrade is stored.
const (
	Key       = "upgrade."  // + Name: Record
	KeyWorker = "upgraded." // + worker: WorkerRecord, of those whose turn has come

	Name = "now" // there is one at a time
)

const (
	// MaxUpgradeTries on a worker that may work another time.
	MaxUpgradeTries = 3
	// maxWatched bounds the instances of a worker that must be ready again.
	maxWatched = 2000
)

// Record is which program the workers should be.
type Record struct {
	V       int                  `json:"v"`
	ID      string               `json:"id"`
	Request apiv1.UpgradeRequest `json:"request"`
	By      string               `json:"by,omitempty"`
	At      time.Time            `json:"at"`
	// State is of apiv1.UpgradeView, Why of it where somebody or something stopped it.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Undo: those that were upgraded go back.
	Undo bool `json:"undo,omitempty"`
}

// WorkerRecord is how far a worker is.
type WorkerRecord struct {
	V int `json:"v"`
	// ID of the upgrade; those of another one count for nothing.
	ID    string     `json:"id"`
	Phase wave.Phase `json:"phase"`
	Since time.Time  `json:"since"`
	Why   string     `json:"why,omitempty"`
	// Tries so far, and Key, the last one. Made is the one that made it what it is to be
	// undone, "" if none did.
	Tries int    `json:"tries,omitempty"`
	Key   string `json:"key,omitempty"`
	Made  string `json:"made,omitempty"`
	// Undo: it is told to go back.
	Undo bool `json:"undo,omitempty"`
	// Was is its version when it began, Ready the instances that were ready then, with
	// their restarts.
	Was   string                  `json:"was,omitempty"`
	Ready map[wire.InstanceID]int `json:"ready,omitempty"`
}

// Of is a copy of how far a worker is in the upgrade that there is.
func Of(m *state.Model, w *state.Worker) WorkerRecord {
	if r := WorkerTable.Rows(m.DB)[w.Info.Name]; r != nil && r.ID == Current(m).ID {
		return *r
	}
	r := WorkerRecord{V: wire.Version, ID: Current(m).ID, Phase: wave.Waits, Since: Current(m).At}
	q := &Current(m).Request
	switch {
	case Current(m).Undo:
		r.Phase, r.Why = wave.Skipped, "it was not upgraded"
	case leavesOut(q, w.Info.Name):
		r.Phase, r.Why = wave.Skipped, "it was not named"
	case w.Info.OS != "" && q.For(w.Info.OS, w.Info.Arch) == nil:
		r.Phase, r.Why = wave.Skipped, fmt.Sprintf("no program is for %s/%s", w.Info.OS, w.Info.Arch)
	case Current(m).State == apiv1.UpgradeDone || w.Joined.After(Current(m).At):
		// It may be newer than what is brought here.
		r.Phase, r.Why = wave.Skipped, "it joined after the upgrade began"
	}
	return r
}

// readyOn are the instances that are ready on a worker, with their restarts.
func readyOn(w *state.Worker) map[wire.InstanceID]int {
	out := map[wire.InstanceID]int{}
	for id, st := range w.Status {
		if st.Phase == wire.PhaseRunning && st.Ready && !st.Draining && len(out) < maxWatched {
			out[id] = st.Restarts
		}
	}
	return out
}

// lacks says which instance that was ready on a worker before is not as it was, "" if all
// are. What is not to be there any more is not missed.
func lacks(m *state.Model, w *state.Worker, was map[wire.InstanceID]int) string {
	for _, id := range slices.Sorted(maps.Keys(was)) {
		i := m.Insts[id]
		if i == nil || i.Worker != w.Info.Name || i.Draining || i.State != wire.Running &&
			i.State != wire.WorkerScheduled || state.Asleep(i) {
			continue
		}
		switch st, known := w.Status[id]; {
		case !known:
			return "it says nothing of " + id
		case !st.Ready:
			return strings.TrimSuffix(fmt.Sprintf("%s is not ready: %s %s", id, st.Phase, st.Why), " ")
		case st.Incarnation == i.Incarnation && st.Restarts > was[id]:
			return fmt.Sprintf("%s has been started again %d times", id, st.Restarts-was[id])
		}
	}
	if w.Info.Impaired != "" {
		return w.Info.Impaired
	}
	return ""
}

// inWave is a worker as policy/wave sees it.
func inWave(m *state.Model, w *state.Worker, r *WorkerRecord) wave.Worker {
	x := wave.Worker{Name: w.Info.Name, Phase: r.Phase, Since: r.Since, Away: w.Suspect || !w.EverHeard}
	if r.Phase == wave.Soaks {
		x.Lacks = lacks(m, w, r.Ready)
		if !r.Undo {
			x.Worse = worseSince(m, w.Info.Name, r.Since)
		}
	}
	return x
}

func (u *Record) rules() wave.Rules {
	return wave.Rules{Wave: u.Request.Wave, Soak: u.Request.Soak.Std(), Timeout: u.Request.WorkerTimeout.Std(),
		Recover: wire.RecoverWithin}
}

// Step is what a look at an upgrade has decided.
type Step struct {
	Record  *Record                   // nil: as it is
	Workers map[string]*WorkerRecord  // those that change
	Asks    map[string]rpc.UpgradeAsk // whom to ask now
	Events  []event.Event
	Active  bool // somebody must look again soon
}

// NextStep decides what is next. It changes nothing.
func NextStep(m *state.Model, now time.Time) (s Step) {
	u := Current(m)
	if u == nil {
		return s
	}
	s.Workers, s.Asks = map[string]*WorkerRecord{}, map[string]rpc.UpgradeAsk{}
	say := func(kind event.Kind, worker, format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		s.Events = append(s.Events, kind.On(event.WorkerName(m.Name, worker), "upgrade %.6s: %s", u.ID, text))
	}
	held := Held(m, now)
	if u.State != apiv1.UpgradeRolling {
		held = cmp.Or(u.Why, u.State)
	}
	if m.Mark() != nil {
		held = "this cluster was restored from a backup"
	}
	all := map[string]WorkerRecord{}
	var list []wave.Worker
	for name, w := range m.Workers {
		if !w.Revoked.IsZero() {
			continue
		}
		r := Of(m, w)
		all[name] = r
		list = append(list, inWave(m, w, &r))
	}
	a := wave.Decide(u.rules(), held, list, now)
	set := func(name string, phase wave.Phase, change func(r *WorkerRecord)) {
		r := all[name]
		r.Phase, r.Since = phase, now.Round(0)
		change(&r)
		all[name] = r
		s.Workers[name] = &r
	}
	for _, name := range a.Pass {
		set(name, wave.Passed, func(r *WorkerRecord) { r.Why, r.Ready = "", nil })
		say(event.WorkerUpgrade, name, "it is sound: what ran there before does so again")
	}
	for name, why := range a.Fail {
		set(name, wave.Failed, func(r *WorkerRecord) {
			r.Why = why
			if !r.Undo { // the worker does not know that it has failed
				r.Undo, r.Made, r.Tries = true, r.Key, r.Tries+1
				r.Key = upgradeKey(u, name, r)
			}
		})
		say(event.WorkerUpgradeFails, name, "failed: %s", why)
	}
	for _, name := range a.Begin {
		w := m.Workers[name]
		set(name, wave.Begun, func(r *WorkerRecord) {
			r.Was, r.Ready, r.Why, r.Tries = cmp.Or(r.Was, w.Info.Version), readyOn(w), "", r.Tries+1
			r.Key = upgradeKey(u, name, r)
		})
		if u.Undo {
			say(event.WorkerUpgrade, name, "it is ordered to go back")
		} else {
			say(event.WorkerUpgrade, name, "it is ordered to run the program %.12s",
				u.Request.For(w.Info.OS, w.Info.Arch).SHA256)
		}
	}
	for name, r := range all {
		if r.Phase != wave.Begun && (r.Phase != wave.Failed || !r.Undo) {
			continue
		}
		q := rpc.UpgradeAsk{Key: r.Key, Drain: int64(u.Request.Drain)}
		if r.Undo {
			q.Undo = r.Made
		} else {
			q.Program = u.Request.For(m.Workers[name].Info.OS, m.Workers[name].Info.Arch)
		}
		s.Asks[name] = q
	}
	next := *u
	switch {
	case m.Mark() != nil && u.State == apiv1.UpgradeRolling:
		// What has happened since is not known: somebody must look first.
		next.State, next.Why = apiv1.UpgradePaused, "this cluster was restored from a backup"
	case a.Halt != "" && u.State != apiv1.UpgradeHalted:
		next.State, next.Why = apiv1.UpgradeHalted, a.Halt
	case a.Done && u.State == apiv1.UpgradeRolling:
		next.State, next.Why = apiv1.UpgradeDone, ""
	}
	if next.State != u.State {
		s.Record = &next
		what := "the upgrade is " + next.State
		if next.Why != "" {
			what += ": " + next.Why
		}
		s.Events = append(s.Events, event.ClusterUpgrade.On(m.Name, "upgrade %.6s: %s", u.ID, what))
	}
	s.Active = len(s.Asks) > 0 || next.State == apiv1.UpgradeRolling ||
		slices.ContainsFunc(list, func(w wave.Worker) bool { return w.Phase == wave.Soaks || w.Phase == wave.Begun })
	return s
}

// upgradeKey names a try on a worker.
func upgradeKey(u *Record, name string, r *WorkerRecord) string {
	key := fmt.Sprintf("%.16s.%s.%d", u.ID, name, r.Tries)
	if r.Undo {
		key += ".undo"
	}
	return key
}

// HeardTry takes over what a worker says of a try; nil where nothing has changed.
func HeardTry(m *state.Model, name string, try *rpc.UpgradeTry, now time.Time) (r *WorkerRecord, said string) {
	u, w := Current(m), m.Workers[name]
	if u == nil || w == nil {
		return nil, ""
	}
	next := Of(m, w)
	if next.Key != try.Key {
		return nil, "" // of another try
	}
	why := state.Cut(try.Why, 500)
	to := func(phase wave.Phase) { next.Phase, next.Since, next.Why = phase, now.Round(0), why }
	switch {
	case next.Phase == wave.Failed && next.Undo && try.State == rpc.TryDone:
		next.Undo, next.Made = false, ""
		next.Why += "; it has gone back"
		return &next, "it has gone back"
	case next.Phase == wave.Failed && next.Undo && (try.State == rpc.TryFailed || try.State == rpc.TryRefused):
		next.Undo = false
		next.Why += "; it has not gone back: " + why
		return &next, "it does not go back: " + why
	case next.Phase != wave.Begun:
		return nil, ""
	case try.State == rpc.TryDone:
		to(wave.Soaks)
		next.Made = next.Key
		if next.Undo {
			next.Made = ""
		}
		return &next, "it works as " + state.Cut(try.Agent, 100)
	case try.State == rpc.TryRefused:
		to(wave.Skipped)
		return &next, "skipped: " + why
	case try.State == rpc.TryFailed && try.Again && next.Tries < MaxUpgradeTries:
		to(wave.Waits)
		return &next, "it is to be tried again: " + why
	case try.State == rpc.TryFailed:
		to(wave.Failed)
		next.Undo = false // it goes on as before
		return &next, "failed, and it goes on as before: " + why
	}
	// What it does now is not worth a write.
	if mine := WorkerTable.Rows(m.DB)[name]; mine != nil && mine.ID == u.ID {
		mine.Why = why
	}
	return nil, ""
}

// leavesOut says whether a request names other workers.
func leavesOut(q *apiv1.UpgradeRequest, worker string) bool {
	return len(q.Workers) > 0 && !slices.Contains(q.Workers, worker)
}

// View is how far the upgrade is.
func View(m *state.Model, now time.Time) apiv1.UpgradeView {
	v := apiv1.UpgradeView{Cluster: m.Name, State: apiv1.UpgradeNone, Workers: []apiv1.UpgradeWorker{}}
	u := Current(m)
	if u == nil {
		return v
	}
	v.ID, v.State, v.Undo, v.Why, v.By, v.At, v.Reason, v.Wave, v.Programs = u.ID, u.State, u.Undo, u.Why, u.By, u.At,
		u.Request.Reason, u.Request.Wave, u.Request.Programs
	var list []wave.Worker
	for _, name := range records.SortedKeys(m.Workers) {
		w := m.Workers[name]
		if !w.Revoked.IsZero() {
			continue
		}
		r := Of(m, w)
		x := inWave(m, w, &r)
		switch {
		case r.Phase == wave.Soaks:
			r.Why = cmp.Or(x.Worse, x.Lacks)
		case r.Phase == wave.Waits && x.Away:
			r.Why = cmp.Or(r.Why, "it is away")
		}
		list = append(list, x)
		v.Workers = append(v.Workers, apiv1.UpgradeWorker{Name: name, Phase: string(r.Phase), Since: r.Since,
			Version: w.Info.Version, Was: r.Was, Why: r.Why,
			LeftOut: r.Phase == wave.Skipped && !u.Undo && leavesOut(&u.Request, name)})
	}
	if u.State == apiv1.UpgradeRolling {
		v.Why = cmp.Or(v.Why, wave.Decide(u.rules(), Held(m, now), list, now).Why)
	}
	return v
}

// Known is what this process knows beside what is stored.
type Known struct {
	Counts *Counts // answers of instances during the upgrade; nil: none yet
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	Clone: func(*Known) *Known {
		return &Known{} // a plan goes by none of what instances answer
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
