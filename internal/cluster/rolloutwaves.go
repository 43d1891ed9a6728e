package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// askWaveAgain is how long nobody is asked again about a wave for which there was no answer.
	askWaveAgain = 10 * time.Second
	// rootPatience is how long the root may take: its hooks are asked all at once.
	rootPatience = (wire.MaxHookWait + 5) * time.Second
	// maxSaid bounds what is kept of what hooks had to do with a rollout.
	maxSaid = 5
)

// waveWord is what came of asking hooks about a wave of a rollout. It is of this process:
// what is lost with it is one question. That a wave was agreed to is in the record of the
// rollout, in the write that begins it.
type waveWord struct {
	// program, tried and wave say what it is about.
	program string
	tried   time.Time
	wave    int
	at      time.Time
	// agreed, with what is to be said of hooks that did not answer and are not needed; or
	// refused and why; or silent, and why nobody has answered who must.
	agreed          bool
	warnings        []string
	refused, silent string
}

// of says whether it is about what r is to begin next.
func (w *waveWord) of(r *rolling) bool {
	return w != nil && r.open() && w.program == r.Program && w.tried.Equal(r.Tried) && w.wave > r.Agreed
}

// waveAsk is a wave that a pass wants to begin.
type waveAsk struct {
	word waveWord // without an answer
	data wire.HookData
	// root is what it means if the root does not answer; "": it is not asked.
	root string
}

// asked says whether hooks are asked before the waves of a service here: of this cluster, or
// of the root.
func (m *model) asked(s *wire.Share) bool {
	_, all := m.gates[""]
	_, some := m.gates[groupOf(s)]
	return all || some || s.Waves != ""
}

// heedWord takes over that hooks have agreed to the next wave.
func (t *tx) heedWord(key string, r *rolling) {
	w := t.m.waveWords[key]
	if !w.of(r) || !w.agreed {
		return
	}
	for _, said := range w.warnings {
		said = fmt.Sprintf("wave %d: %s", w.wave, said)
		t.Event("service/"+key, "rollout to revision %d, %s", r.Revision, said)
		r.Said = append(r.Said[:len(r.Said):len(r.Said)], cut(said, maxWords))
	}
	r.Said = r.Said[max(0, len(r.Said)-maxSaid):]
	r.Agreed = w.wave
}

// askWave notes that hooks are to be asked about a wave.
func (t *tx) askWave(key string, r *rolling, s *wire.Share, wave, of, steps int) {
	d := wire.HookData{
		Operation: wire.GateWave, Subject: ofRollout + key, Namespace: groupOf(s), Application: s.App, Service: s.Service, Cluster: t.m.Name, Revision: r.Revision,
		Wave: &wire.HookWave{Number: wave, Of: of, Steps: steps, From: r.FromRevision, Promised: promised(s), Updated: r.Updated},
		What: fmt.Sprintf("wave %d of %d from revision %d to %d in cluster %s", wave, of, r.FromRevision, r.Revision, t.m.Name),
	}
	if wave <= steps {
		d.Wave.Share = s.Spec.Rollout.Canary[wave-1].Share
	}
	if o := t.m.outcomes[key]; o.of(r) {
		d.Wave.Old, d.Wave.New = t.m.side(o.before, r, s, false), t.m.side(o.after, r, s, true)
	}
	if l := t.m.locals[key]; l != nil {
		d.By = l.By
	}
	t.waves[key] = &waveAsk{word: waveWord{program: r.Program, tried: r.Tried, wave: wave}, data: d, root: s.Waves}
}

// askWaves asks hooks about one of the waves that a pass wants to begin, without waiting for
// them: the one that has waited for longest. The mutex is held.
func (c *core) askWaves(t *tx) {
	for key, w := range c.m.waveWords {
		if !w.of(c.m.rolls[key]) {
			delete(c.m.waveWords, key)
		}
	}
	if c.asksWave {
		return // the next one when that has been answered
	}
	var next *waveAsk
	var of string
	var since time.Time
	for _, key := range records.SortedKeys(t.waves) {
		a, was := t.waves[key], c.m.waveWords[key]
		var at time.Time
		if was != nil {
			if at = was.at; was.silent == "" || max(t.Now.Sub(at), at.Sub(t.Now)) < askWaveAgain {
				continue
			}
		}
		if next == nil || at.Before(since) {
			next, of, since = a, key, at
		}
	}
	if next == nil {
		return
	}
	c.asksWave = true
	keeper := c.hooks
	c.asking.Go(func() {
		w := next.word
		w.warnings, w.refused, w.silent = c.ask(c.askCtx, keeper, next)
		w.agreed, w.at = w.refused == "" && w.silent == "", time.Now()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asksWave = false
		if c.askCtx.Err() == nil {
			c.m.waveWords[of] = &w
			loop.Poke(c.wake)
		}
	})
}

// ask asks the hooks of this cluster about a wave, then those of the root.
func (c *core) ask(ctx context.Context, keeper *hooks.Keeper, a *waveAsk) (warnings []string, refused, silent string) {
	warnings, err := keeper.Ask(ctx, a.data)
	if err == nil && a.root != "" {
		var more []string
		ctx, cancel := context.WithTimeout(ctx, rootPatience)
		defer cancel()
		more, err = exchange.AskGate(ctx, c.up, exchange.ClusterSubjects(), a.data)
		warnings = append(warnings, more...)
		var p *wire.Problem
		if err != nil && !errors.As(err, &p) {
			why := "the root, whose hooks are to be asked, does not answer"
			if a.root == wire.HookOpen {
				return append(warnings, why+"; it was done all the same (on_failure: open)"), "", ""
			}
			return nil, "", why + "; without their word nothing is done (on_failure: closed)"
		}
	}
	var p *wire.Problem
	switch {
	case err == nil:
		return warnings, "", ""
	case errors.As(err, &p) && p.Code == wire.CodeHookRefused:
		return nil, cut(p.Detail, maxWords), ""
	case errors.As(err, &p):
		return nil, "", cut(p.Detail, maxWords)
	}
	return nil, "", cut(strings.TrimSpace(err.Error()), maxWords)
}
