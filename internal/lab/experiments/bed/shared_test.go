package bed

import (
	"context"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Of four requests that share two processors each takes twice as long as alone, and who leaves makes room.
func TestRequestsShareAnInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared("i", 100*time.Millisecond, 2)
		defer s.close()
		ask := func(ctx context.Context, work string) (*httptest.ResponseRecorder, time.Duration) {
			r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
			r.Header.Set(workHeader, work)
			out, begun := httptest.NewRecorder(), time.Now()
			s.ServeHTTP(out, r)
			return out, time.Since(begun)
		}
		if out, took := ask(t.Context(), "10"); out.Code != 200 || out.Header().Get(podHeader) != "i" || took.Round(time.Millisecond) != time.Second {
			t.Errorf("alone: %d after %v", out.Code, took)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if _, took := ask(t.Context(), "1"); took.Round(time.Millisecond) != 200*time.Millisecond {
					t.Errorf("one of four: %v", took)
				}
			})
		}
		all.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 {
			all.Go(func() { ask(short, "1000") })
		}
		// Two thirds of a processor in the first second, until the others leave, one from then on.
		all.Go(func() {
			if _, took := ask(t.Context(), "10"); took.Round(time.Millisecond) != 1333*time.Millisecond {
				t.Errorf("beside two that leave after a second: %v", took)
			}
		})
		all.Wait()
		if out, _ := ask(t.Context(), "much"); out.Code != 400 {
			t.Errorf("no number: %d", out.Code)
		}
	})
}
