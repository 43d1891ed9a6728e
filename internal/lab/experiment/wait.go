package experiment

import (
	"context"
	"time"
)

// Poll asks until the answer is yes; false after the timeout.
func Poll(ctx context.Context, timeout time.Duration, ask func() (bool, error)) (bool, error) {
	const every = 5 * time.Millisecond
	deadline := time.Now().Add(timeout)
	for {
		yes, err := ask()
		if err != nil || yes {
			return yes, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		if err := Pause(ctx, every); err != nil {
			return false, err
		}
	}
}

// Pause waits for d.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
