package notify

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

// AskWaves asks hooks about one of the waves that a pass wants to begin, without waiting for
// them: the one that has waited for longest. The caller has the model.
func AskWaves(c *core.Core, t *state.Tx) {
	for key, w := range rollouts.Memory(c.M).WaveWords {
		if !w.Of(rollouts.Table.Rows(c.M.DB)[key]) {
			delete(rollouts.Memory(c.M).WaveWords, key)
		}
	}
	if Memory(c.M).asksWave {
		return // the next one when that has been answered
	}
	var next *rollouts.WaveAsk
	var of string
	var since time.Time
	for _, key := range records.SortedKeys(rollouts.Pass(t).Waves) {
		a, was := rollouts.Pass(t).Waves[key], rollouts.Memory(c.M).WaveWords[key]
		var at time.Time
		if was != nil {
			if at = was.At; was.Silent == "" || max(t.Now.Sub(at), at.Sub(t.Now)) < rollouts.AskWaveAgain {
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
	Memory(c.M).asksWave = true
	keeper := c.HookKeeper
	c.Asking.Go(func() {
		w := next.Word
		w.Warnings, w.Refused, w.Silent = Ask(c.AskCtx, c, keeper, next)
		w.Agreed, w.At = w.Refused == "" && w.Silent == "", time.Now()
		core.Do(c, func(m *state.Model) {
			Memory(m).asksWave = false
			if c.AskCtx.Err() == nil {
				rollouts.Memory(m).WaveWords[of] = &w
				loop.Poke(c.Wake)
			}
		})
	})
}

// Ask asks the hooks of this cluster about a wave, then those of the root.
func Ask(ctx context.Context, c *core.Core, keeper *hooks.Keeper, a *rollouts.WaveAsk) (warnings []string, refused,
	silent string) {
	warnings, err := keeper.Ask(ctx, a.Data)
	if err == nil && a.Root != "" {
		var more []string
		ctx, cancel := context.WithTimeout(ctx, rollouts.RootTimeout)
		defer cancel()
		more, err = exchange.AskGate(ctx, c.Up, exchange.ClusterSubjects(), a.Data)
		warnings = append(warnings, more...)
		var p *wire.Problem
		if err != nil && !errors.As(err, &p) {
			why := "the root, whose hooks are to be asked, does not answer"
			if a.Root == wire.HookOpen {
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
		return nil, state.Cut(p.Detail, state.MaxWords), ""
	case errors.As(err, &p):
		return nil, "", state.Cut(p.Detail, state.MaxWords)
	}
	return nil, "", state.Cut(strings.TrimSpace(err.Error()), state.MaxWords)
}
