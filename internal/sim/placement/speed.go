package placement

import (
	"context"
	"fmt"
	"time"
)

// Speed places instances one after the other on one cluster of all workers of a
// scenario, and returns what each decision took of the processor, the upkeep of the
// index included. The first ones, in which the index is made, are not counted.
func Speed(ctx context.Context, s *Scenario, by Scheduler, decisions int) (took []time.Duration, err error) {
	ids := make([]int, len(s.Workers))
	for i := range ids {
		ids[i] = i
	}
	p := NewPool(s, ids)
	const first = 50
	err = pinned(func() error {
		for n := range first + decisions {
			if n%64 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			v := &s.Services[n%len(s.Services)]
			from := p.Took
			_, why, err := p.one(v, n, by)
			if err != nil {
				return err
			}
			if why != "" {
				return fmt.Errorf("decision %d: %s", n, why)
			}
			if n >= first {
				took = append(took, p.Took-from)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%d workers by %s: %w", len(s.Workers), by.Name, err)
	}
	return took, nil
}
