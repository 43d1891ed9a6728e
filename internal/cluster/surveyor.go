package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// surveyAtOnce is how many workers are asked at a time; each answers within three
	// seconds or not at all.
	surveyAtOnce = 64
	// surveyIdle is the longest time between two looks at whom to ask.
	surveyIdle = 10 * time.Second
)

// runSurvey asks workers how far they are from each other until ctx ends. Somebody
// pokes c.surveys when there may be something new to ask.
func (c *core) runSurvey(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, surveyAtOnce)
	for ctx.Err() == nil {
		now := time.Now()
		c.mu.Lock()
		violated, later := c.m.judgeUnmeasured(now)
		list, next := c.m.survey(now)
		c.mu.Unlock()
		if violated {
			loop.Poke(c.wake)
		}
		for _, q := range list {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-slots }()
				c.surveyOne(ctx, q)
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
		case <-c.surveys:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// surveyOne asks one worker.
func (c *core) surveyOne(ctx context.Context, q question) {
	r, err := c.measured(ctx, q)
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.log.Debug("a worker's distances", "worker", q.worker, "error", err)
	}
	if violated := c.m.learnNear(q, r, err, time.Now()); violated || len(c.m.near.since) > 0 { // somebody waits for it
		loop.Poke(c.wake)
	}
	loop.Poke(c.surveys)
}

// measured is what one worker answers.
func (c *core) measured(ctx context.Context, q question) (r wire.Measured, err error) {
	if err = c.askWorker(ctx, q.worker, wire.Ask{What: wire.AskMeasure, Worker: q.worker, Measure: &q.ask}, "distances cannot be measured now", &r); err != nil {
		return r, err
	}
	return r, wire.CheckVersion("the distances of worker "+q.worker, r.V)
}
