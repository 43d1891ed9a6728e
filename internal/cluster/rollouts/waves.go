package rollouts

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// AskWaveAgain is how long nobody is asked again about a wave for which there was no answer.
	AskWaveAgain = 10 * time.Second
	// RootTimeout is how long the root may take: its hooks are asked all at once.
	RootTimeout = (wire.MaxHookWait + 5) * time.Second
	// maxSaid bounds what is kept of what hooks had to do with a rollout.
	maxSaid = 5
)

// WaveWord is what came of asking hooks about a wave of a rollout. It is of this process:
// what is lost with it is one question. That a wave was agreed to is in the record of the
// rollout, in the write that begins it.
type WaveWord struct {
	// program, tried and wave say what it is about.
	Program string
	Tried   time.Time
	Wave    int
	At      time.Time
	// agreed, with what is to be said of hooks that did not answer and are not needed; or
	// refused and why; or silent, and why nobody has answered who must.
	Agreed          bool
	Warnings        []string
	Refused, Silent string
}

// Of says whether it is about what r is to begin next.
func (w *WaveWord) Of(r *Record) bool {
	return w != nil && r.Open() && w.Program == r.Program && w.Tried.Equal(r.Tried) && w.Wave > r.Agreed
}

// WaveAsk is a wave that a pass wants to begin.
type WaveAsk struct {
	Word WaveWord // without an answer
	Data wire.HookData
	// root is what it means if the root does not answer; "": it is not asked.
	Root string
}

// asked says whether hooks are asked before the waves of a service here: of this cluster, or
// of the root.
func asked(m *state.Model, s *wire.Share) bool {
	_, all := Memory(m).Gates[""]
	_, some := Memory(m).Gates[state.GroupOf(s)]
	return all || some || s.Waves != ""
}

// applyWord takes over that hooks have agreed to the next wave.
func applyWord(t *state.Tx, key string, r *Record) {
	w := Memory(t.Model).WaveWords[key]
	if !w.Of(r) || !w.Agreed {
		return
	}
	for _, said := range w.Warnings {
		said = fmt.Sprintf("wave %d: %s", w.Wave, said)
		t.Event(event.RolloutGate, key, "rollout to revision %d, %s", r.Revision, said)
		r.Said = append(r.Said[:len(r.Said):len(r.Said)], state.Cut(said, state.MaxWords))
	}
	r.Said = r.Said[max(0, len(r.Said)-maxSaid):]
	r.Agreed = w.Wave
}

// askWave notes that hooks are to be asked about a wave.
func askWave(t *state.Tx, key string, r *Record, s *wire.Share, wave, of, steps int) {
	d := wire.HookData{
		Operation: wire.GateWave, Subject: OfRollout + key, Namespace: state.GroupOf(s), Application: s.App,
		Service: s.Service, Cluster: t.Model.Name, Revision: r.Revision,
		Wave: &wire.HookWave{Number: wave, Of: of, Steps: steps, From: r.FromRevision, Promised: Promised(s),
			Updated: r.Updated},
		What: fmt.Sprintf("wave %d of %d from revision %d to %d in cluster %s", wave, of, r.FromRevision, r.Revision,
			t.Model.Name),
	}
	if wave <= steps {
		d.Wave.Share = s.Spec.Rollout.Canary[wave-1].Share
	}
	if o := Memory(t.Model).Outcomes[key]; o.of(r) {
		d.Wave.Old, d.Wave.New = Side(t.Model, o.before, r, s, false), Side(t.Model, o.after, r, s, true)
	}
	if l := localedit.Table.Rows(t.Model.DB)[key]; l != nil {
		d.By = l.By
	}
	Pass(t).Waves[key] = &WaveAsk{Word: WaveWord{Program: r.Program, Tried: r.Tried, Wave: wave}, Data: d,
		Root: s.Waves}
}

// OfRollout is the prefix of subjects of hooks that are about a rollout.
const OfRollout = "rollout/"
