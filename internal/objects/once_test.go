package objects

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks for the same is answered by one question, which goes on when who asked first has
// left, and ends with Close.
func TestOneAsksForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Once
		asked := 0
		ask := func(ctx context.Context) (bool, error) {
			asked++
			select {
			case <-time.After(time.Minute):
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		}
		first, leave := context.WithCancel(t.Context())
		left, got := make(chan error, 1), make(chan error, 1)
		go func() { _, err := o.Ask(first, "a", ask); left <- err }()
		synctest.Wait()
		go func() {
			stale, err := o.Ask(t.Context(), "a", ask)
			if !stale {
				err = errors.Join(err, errors.New("the answer got lost"))
			}
			got <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who has left: %v", err)
		}
		if err := <-got; err != nil || asked != 1 {
			t.Errorf("who stayed: %v after %d questions", err, asked)
		}
		go func() { _, err := o.Ask(t.Context(), "b", ask); got <- err }()
		synctest.Wait()
		o.Close()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("at the end: %v", err)
		}
		if _, err := o.Ask(t.Context(), "c", ask); !errors.Is(err, ErrClosed) || asked != 2 {
			t.Errorf("after the end: %v", err)
		}
	})
}
