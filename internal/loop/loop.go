// Package loop runs the passes of a role: when something has changed, and when a
// deadline may have come. A pass is level-triggered, so one too many costs a
// little time and one that failed is simply made again.
package loop

import (
	"context"
	"log/slog"
	"time"
)

// Tick is the time between two looks at the clock where nothing better is known.
const Tick = time.Second

// Loop of one role.
type Loop struct {
	// Wake asks for a pass; capacity 1. See Poke.
	Wake chan struct{}
	// Pass does what is to be done now. changed is false where only time has
	// passed and the last pass had settled. settled: nothing waits for time to
	// pass.
	Pass func(ctx context.Context, now time.Time, changed bool) (settled bool, err error)
	// Pause is the time until the next look at the clock, after a pass that has
	// settled or not; nil is Tick.
	Pause func(settled bool) time.Duration
	// Rest is for how long no other pass is made after the last, whoever asks; nil is
	// not at all.
	Rest func() time.Duration
	Log  *slog.Logger
}

// Run makes a pass at once, and goes on until ctx is done.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(Tick)
	defer timer.Stop()
	Poke(l.Wake)
	settled := false
	for {
		changed := true
		select {
		case <-ctx.Done():
			return
		case <-l.Wake:
		case <-timer.C:
			changed = !settled
		}
		var err error
		if settled, err = l.Pass(ctx, time.Now(), changed); err != nil && ctx.Err() == nil {
			l.Log.Error("a pass failed, it is made again", "error", err)
			settled = false
		}
		pause := Tick
		if l.Pause != nil {
			pause = l.Pause(settled)
		}
		timer.Reset(pause)
		if l.Rest != nil {
			pauseFor(ctx, l.Rest())
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Poke asks for something without ever waiting.
func Poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
