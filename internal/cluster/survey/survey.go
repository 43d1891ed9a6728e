package survey

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// surveyIdle is the longest time between two looks at whom to ask.
const surveyIdle = 10 * time.Second

// RunSurvey asks workers how far they are from each other until ctx ends. Somebody
// pokes c.Surveys when there may be something new to ask.
func RunSurvey(ctx context.Context, c *core.Core) {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, proximity.SurveyAtOnce)
	for ctx.Err() == nil {
		now := time.Now()
		var list []proximity.Question
		var next, later time.Time
		core.Do(c, func(m *state.Model) {
			var violated bool
			if violated, later = proximity.JudgeUnmeasured(m, now); proximity.TellPlaces(m, now) || violated {
				loop.Poke(c.Wake)
			}
			list, next = proximity.Survey(m, routes.InCrowds(m), now)
		})
		for _, q := range list {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-slots }()
				surveyOne(ctx, c, q)
			})
		}
		pause := surveyIdle
		for _, at := range []time.Time{next, later} {
			if !at.IsZero() {
				pause = min(pause, time.Until(at))
			}
		}
		timer := time.NewTimer(max(pause, 10*time.Millisecond))
		select {
		case <-ctx.Done():
		case <-c.Surveys:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// surveyOne asks one worker.
func surveyOne(ctx context.Context, c *core.Core, q proximity.Question) {
	r, err := Measured(ctx, c, q)
	if ctx.Err() != nil {
		return
	}
	core.Do(c, func(m *state.Model) {
		if err != nil {
			c.Logger.Debug("a worker's distances", "worker", q.Worker, "error", err)
		}
		if violated := proximity.LearnNear(m, q, r, err, time.Now()); violated ||
			len(proximity.Memory(m).Near.Since) > 0 { // somebody waits for it
			loop.Poke(c.Wake)
		}
		loop.Poke(c.Surveys)
	})
}

// Measured is what one worker answers.
func Measured(ctx context.Context, c *core.Core, q proximity.Question) (r rpc.Measured, err error) {
	if err = core.AskWorker(ctx, c, q.Worker, rpc.Ask{What: rpc.AskMeasure, Worker: q.Worker, Measure: &q.Ask},
		"distances cannot be measured now", &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the distances of worker "+q.Worker, r.V)
}
