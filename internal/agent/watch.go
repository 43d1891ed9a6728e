package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/time/rate" // a bucket of looks; the drivers have it too

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// How often the engine is asked what is new: while many instances start each of them
// changes several times, and what is told at once costs all tiers less than what is told
// one by one: a hundred containers that start cost them a third less than with half the
// pause. One instance alone has nobody to wait for, so the pause grows with how many have
// changed lately. What happens after two quiet seconds is told without delay.
const (
	lookAgain   = 100 * time.Millisecond // where crowd instances and more have changed
	looksAtOnce = 20
	crowd       = 20
	lately      = time.Second
)

// pace says when the engine is asked next.
type pace struct {
	looks   *rate.Limiter
	changed map[wire.InstanceID]time.Time // when the instances of the last looks did
}

func newPace() *pace {
	return &pace{rate.NewLimiter(rate.Every(lookAgain), looksAtOnce), map[wire.InstanceID]time.Time{}}
}

// note takes what a look has brought.
func (p *pace) note(s *engineapi.EngineState, now time.Time) {
	for i := range s.Changed {
		p.changed[s.Changed[i].ID] = now
	}
	for _, id := range s.Gone {
		p.changed[id] = now
	}
	for id, at := range p.changed {
		if now.Sub(at) > lately {
			delete(p.changed, id)
		}
	}
	n := time.Duration(min(max(len(p.changed), 1), crowd))
	p.looks.SetLimitAt(now, rate.Every(lookAgain*n/crowd))
}

// watch follows the engine, and starts it again when it dies.
func (a *Agent) watch(ctx context.Context, seq uint64) {
	const firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	pause := firstPause
	pace := newPace()
	owed := false // the engine has not taken the orders yet
	for ctx.Err() == nil {
		if seq != 0 && pace.looks.Wait(ctx) != nil {
			return
		}
		poll := statePoll
		if owed {
			poll = longestPause
		}
		s, err := a.client.State(ctx, seq, poll)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			a.log.Warn("the engine is gone", "error", err)
			if remote, ok := a.client.(*engineclient.Remote); ok {
				if err := a.keeper.Ensure(ctx, remote); err != nil && ctx.Err() == nil {
					a.log.Error("the engine cannot be started, trying again", "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, longestPause)
			seq = 0
			continue
		}
		pause = firstPause
		pace.note(&s, time.Now())
		a.mu.Lock()
		other := s.Engine != a.engine
		a.mu.Unlock()
		if other && seq != 0 {
			seq = 0 // of another run: ask for all of it
			continue
		}
		a.take(s, seq == 0)
		if other || owed {
			owed = !a.handOver(ctx)
		}
		seq = s.Seq
	}
}

// take takes over what the engine says; full: these are all its instances.
func (a *Agent) take(s engineapi.EngineState, full bool) {
	changed := false
	present := map[string]bool{}
	for _, st := range s.Changed {
		present[st.ID] = true
		b, err := json.Marshal(st)
		if err != nil {
			a.log.Error("encoding a status", "instance", st.ID, "error", err)
			continue
		}
		changed = a.source.Set(st.ID, b) || changed
	}
	for _, id := range s.Gone {
		changed = a.source.Drop(id) || changed
	}
	if full {
		for _, id := range a.source.Keys() {
			if !present[id] {
				changed = a.source.Drop(id) || changed
			}
		}
	}
	a.mu.Lock()
	for _, p := range s.Info.Problems {
		if !slices.Contains(a.info.Problems, p) {
			a.log.Warn("the engine has a problem", "problem", p)
		}
	}
	changed = changed || !records.Same(a.info, s.Info)
	if now, was := s.Info.Network, a.info.Network; now != nil && (was == nil || was.Mode != now.Mode || was.Why != now.Why) {
		logNetwork(a.log, now)
	}
	if now := s.Info.Isolation; now != nil && (a.info.Isolation == nil || a.info.Isolation.Users != now.Users) {
		logIsolation(a.log, now)
	}
	a.info, a.engine, a.seq = s.Info, s.Engine, s.Seq
	a.mu.Unlock()
	if changed {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// logNetwork says how instances are connected, and why not otherwise.
func logNetwork(log *slog.Logger, n *wire.NetworkInfo) {
	text := "network: instances share the machine's (loopback)"
	if n.Mode == wire.NetworkOverlay {
		text = "network: instances have addresses of their own, services have names (overlay)"
	}
	if n.Why != "" {
		log.Info(text, "why", n.Why)
		return
	}
	log.Info(text)
}

// logIsolation says who instances run as.
func logIsolation(log *slog.Logger, n *wire.Isolation) {
	switch {
	case n.Users && n.Missing != "":
		log.Warn("isolation: each process runs as a user of its own", "missing", n.Missing)
		return
	case n.Users:
		log.Info("isolation: each process runs as a user of its own")
		return
	}
	log.Warn("isolation: processes run as the user of the worker and can read what it can", "why", n.Why)
}

// handOver gives a new engine the orders again: it may have lost its own. False if it did
// not take them: where nothing changes at the cluster nobody else would give them.
func (a *Agent) handOver(ctx context.Context) bool {
	a.handing.Lock()
	defer a.handing.Unlock()
	a.mu.Lock()
	o := a.forEngine()
	a.mu.Unlock()
	if o.Have.IsZero() {
		return true
	}
	if err := a.client.Apply(ctx, o); err != nil {
		a.log.Error("handing the orders to the new engine, trying again", "error", err)
		return false
	}
	return true
}
