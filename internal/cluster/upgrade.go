package cluster

import (
	"cmp"
	"fmt"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/wire"
	"maps"
	"slices"
	"strings"
	"time"
)

// Where an upgrade is stored.
const (
	keyUpgrade  = "upgrade."  // + theUpgrade: upgradeRecord
	keyUpgraded = "upgraded." // + worker: upgradedRecord, of those whose turn has come

	theUpgrade = "now" // there is one at a time
)

const (
	// maxUpgradeTries on a worker that may work another time.
	maxUpgradeTries = 3
	// maxWatched bounds the instances of a worker that must be ready again.
	maxWatched = 2000
)

// upgradeRecord is which program the workers should be.
type upgradeRecord struct {
	V       int                 `json:"v"`
	ID      string              `json:"id"`
	Request wire.UpgradeRequest `json:"request"`
	By      string              `json:"by,omitempty"`
	At      time.Time           `json:"at"`
	// State is of wire.UpgradeView, Why of it where somebody or something stopped it.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Undo: those that were upgraded go back.
	Undo bool `json:"undo,omitempty"`
}

// upgradedRecord is how far a worker is.
type upgradedRecord struct {
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

// upgradeOf is a copy of how far a worker is in the upgrade that there is.
func (m *model) upgradeOf(w *state.Worker) upgradedRecord {
	if r := m.upgraded[w.Info.Name]; r != nil && r.ID == m.upgrade().ID {
		return *r
	}
	r := upgradedRecord{V: wire.Version, ID: m.upgrade().ID, Phase: wave.Waits, Since: m.upgrade().At}
	q := &m.upgrade().Request
	switch {
	case m.upgrade().Undo:
		r.Phase, r.Why = wave.Skipped, "it was not upgraded"
	case len(q.Workers) > 0 && !slices.Contains(q.Workers, w.Info.Name):
		r.Phase, r.Why = wave.Skipped, "it was not named"
	case w.Info.OS != "" && q.For(w.Info.OS, w.Info.Arch) == nil:
		r.Phase, r.Why = wave.Skipped, fmt.Sprintf("no program is for %s/%s", w.Info.OS, w.Info.Arch)
	case m.upgrade().State == wire.UpgradeDone || w.Joined.After(m.upgrade().At):
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
func (m *model) lacks(w *state.Worker, was map[wire.InstanceID]int) string {
	for _, id := range slices.Sorted(maps.Keys(was)) {
		i := m.Insts[id]
		if i == nil || i.Worker != w.Info.Name || i.Draining || i.State != wire.Running && i.State != wire.WorkerScheduled || state.Asleep(i) {
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
func (m *model) inWave(w *state.Worker, r *upgradedRecord) wave.Worker {
	x := wave.Worker{Name: w.Info.Name, Phase: r.Phase, Since: r.Since, Away: w.Suspect || !w.EverHeard}
	if r.Phase == wave.Soaks {
		x.Lacks = m.lacks(w, r.Ready)
		if !r.Undo {
			x.Worse = m.worseSince(w.Info.Name, r.Since)
		}
	}
	return x
}

func (u *upgradeRecord) rules() wave.Rules {
	return wave.Rules{Wave: u.Request.Wave, Soak: u.Request.Soak.Std(), Patience: u.Request.Patience.Std(), Recover: wire.RecoverWithin}
}

// upgradeStep is what a look at an upgrade has decided.
type upgradeStep struct {
	record  *upgradeRecord             // nil: as it is
	workers map[string]*upgradedRecord // those that change
	asks    map[string]wire.UpgradeAsk // whom to ask now
	events  []state.Event
	active  bool // somebody must look again soon
}

// stepUpgrade decides what is next. It changes nothing.
func (m *model) stepUpgrade(now time.Time) (s upgradeStep) {
	u := m.upgrade()
	if u == nil {
		return s
	}
	s.workers, s.asks = map[string]*upgradedRecord{}, map[string]wire.UpgradeAsk{}
	say := func(worker, format string, args ...any) {
		s.events = append(s.events, state.Event{Subject: "worker/" + m.Name + "/" + worker, What: fmt.Sprintf("upgrade %.6s: ", u.ID) + fmt.Sprintf(format, args...)})
	}
	held := m.upgradeHeld(now)
	if u.State != wire.UpgradeRolling {
		held = cmp.Or(u.Why, u.State)
	}
	if m.Mark() != nil {
		held = "this cluster was restored from a backup"
	}
	all := map[string]upgradedRecord{}
	var list []wave.Worker
	for name, w := range m.Workers {
		if !w.Revoked.IsZero() {
			continue
		}
		r := m.upgradeOf(w)
		all[name] = r
		list = append(list, m.inWave(w, &r))
	}
	a := wave.Decide(u.rules(), held, list, now)
	set := func(name string, phase wave.Phase, change func(r *upgradedRecord)) {
		r := all[name]
		r.Phase, r.Since = phase, now.Round(0)
		change(&r)
		all[name] = r
		s.workers[name] = &r
	}
	for _, name := range a.Pass {
		set(name, wave.Passed, func(r *upgradedRecord) { r.Why, r.Ready = "", nil })
		say(name, "it is sound: what ran there before does so again")
	}
	for name, why := range a.Fail {
		set(name, wave.Failed, func(r *upgradedRecord) {
			r.Why = why
			if !r.Undo { // the worker does not know that it has failed
				r.Undo, r.Made, r.Tries = true, r.Key, r.Tries+1
				r.Key = upgradeKey(u, name, r)
			}
		})
		say(name, "failed: %s", why)
	}
	for _, name := range a.Begin {
		w := m.Workers[name]
		set(name, wave.Begun, func(r *upgradedRecord) {
			r.Was, r.Ready, r.Why, r.Tries = cmp.Or(r.Was, w.Info.Version), readyOn(w), "", r.Tries+1
			r.Key = upgradeKey(u, name, r)
		})
		if u.Undo {
			say(name, "it is told to go back")
		} else {
			say(name, "it is told to become the program %.12s", u.Request.For(w.Info.OS, w.Info.Arch).SHA256)
		}
	}
	for name, r := range all {
		if r.Phase != wave.Begun && (r.Phase != wave.Failed || !r.Undo) {
			continue
		}
		q := wire.UpgradeAsk{Key: r.Key, Drain: int64(u.Request.Drain)}
		if r.Undo {
			q.Undo = r.Made
		} else {
			q.Program = u.Request.For(m.Workers[name].Info.OS, m.Workers[name].Info.Arch)
		}
		s.asks[name] = q
	}
	next := *u
	switch {
	case m.Mark() != nil && u.State == wire.UpgradeRolling:
		// What has happened since is not known: somebody must look first.
		next.State, next.Why = wire.UpgradePaused, "this cluster was restored from a backup"
	case a.Halt != "" && u.State != wire.UpgradeHalted:
		next.State, next.Why = wire.UpgradeHalted, a.Halt
	case a.Done && u.State == wire.UpgradeRolling:
		next.State, next.Why = wire.UpgradeDone, ""
	}
	if next.State != u.State {
		s.record = &next
		what := "the upgrade is " + next.State
		if next.Why != "" {
			what += ": " + next.Why
		}
		s.events = append(s.events, state.Event{Subject: m.Tier(), What: fmt.Sprintf("upgrade %.6s: ", u.ID) + what})
	}
	s.active = len(s.asks) > 0 || next.State == wire.UpgradeRolling || slices.ContainsFunc(list, func(w wave.Worker) bool { return w.Phase == wave.Soaks || w.Phase == wave.Begun })
	return s
}

// upgradeKey names a try on a worker.
func upgradeKey(u *upgradeRecord, name string, r *upgradedRecord) string {
	key := fmt.Sprintf("%.16s.%s.%d", u.ID, name, r.Tries)
	if r.Undo {
		key += ".undo"
	}
	return key
}

// heardTry takes over what a worker says of a try; nil where nothing has changed.
func (m *model) heardTry(name string, try *wire.UpgradeTry, now time.Time) (r *upgradedRecord, said string) {
	u, w := m.upgrade(), m.Workers[name]
	if u == nil || w == nil {
		return nil, ""
	}
	next := m.upgradeOf(w)
	if next.Key != try.Key {
		return nil, "" // of another try
	}
	why := cut(try.Why, 500)
	to := func(phase wave.Phase) { next.Phase, next.Since, next.Why = phase, now.Round(0), why }
	switch {
	case next.Phase == wave.Failed && next.Undo && try.State == wire.TryDone:
		next.Undo, next.Made = false, ""
		next.Why += "; it has gone back"
		return &next, "it has gone back"
	case next.Phase == wave.Failed && next.Undo && (try.State == wire.TryFailed || try.State == wire.TryRefused):
		next.Undo = false
		next.Why += "; it has not gone back: " + why
		return &next, "it does not go back: " + why
	case next.Phase != wave.Begun:
		return nil, ""
	case try.State == wire.TryDone:
		to(wave.Soaks)
		next.Made = next.Key
		if next.Undo {
			next.Made = ""
		}
		return &next, "it works as " + cut(try.Agent, 100)
	case try.State == wire.TryRefused:
		to(wave.Skipped)
		return &next, "skipped: " + why
	case try.State == wire.TryFailed && try.Again && next.Tries < maxUpgradeTries:
		to(wave.Waits)
		return &next, "it is to be tried again: " + why
	case try.State == wire.TryFailed:
		to(wave.Failed)
		next.Undo = false // it goes on as before
		return &next, "failed, and it goes on as before: " + why
	}
	// What it does now is not worth a write.
	if mine := m.upgraded[name]; mine != nil && mine.ID == u.ID {
		mine.Why = why
	}
	return nil, ""
}

// upgradeView is how far the upgrade is.
func (m *model) upgradeView(now time.Time) wire.UpgradeView {
	v := wire.UpgradeView{Cluster: m.Name, State: wire.UpgradeNone, Workers: []wire.UpgradeWorker{}}
	u := m.upgrade()
	if u == nil {
		return v
	}
	v.ID, v.State, v.Undo, v.Why, v.By, v.At, v.Reason, v.Wave, v.Programs = u.ID, u.State, u.Undo, u.Why, u.By, u.At, u.Request.Reason, u.Request.Wave, u.Request.Programs
	var list []wave.Worker
	for _, name := range records.SortedKeys(m.Workers) {
		w := m.Workers[name]
		if !w.Revoked.IsZero() {
			continue
		}
		r := m.upgradeOf(w)
		x := m.inWave(w, &r)
		switch {
		case r.Phase == wave.Soaks:
			r.Why = cmp.Or(x.Worse, x.Lacks)
		case r.Phase == wave.Waits && x.Away:
			r.Why = cmp.Or(r.Why, "it is away")
		}
		list = append(list, x)
		v.Workers = append(v.Workers, wire.UpgradeWorker{Name: name, Phase: string(r.Phase), Since: r.Since, Version: w.Info.Version, Was: r.Was, Why: r.Why})
	}
	if u.State == wire.UpgradeRolling {
		v.Why = cmp.Or(v.Why, wave.Decide(u.rules(), m.upgradeHeld(now), list, now).Why)
	}
	return v
}
