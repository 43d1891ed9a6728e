package drive_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/proxy/drive"
)

// waiting is a service with so many places, each of which takes that long.
func waiting(places int, takes time.Duration) func(context.Context, int) error {
	free := make(chan struct{}, places)
	return func(ctx context.Context, _ int) error {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-free }()
		select {
		case <-time.After(takes):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestThroughput(t *testing.T) {
	for name, tc := range map[string]struct {
		clients, places int
		takes           time.Duration
		rate            float64
		mean            time.Duration
	}{
		"as many as have room": {4, 4, 20 * time.Millisecond, 200, 20 * time.Millisecond},
		"some wait":            {8, 4, 20 * time.Millisecond, 200, 40 * time.Millisecond},
		"one":                  {1, 4, 250 * time.Millisecond, 4, 250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := drive.New(drive.Plan{Clients: tc.clients, Warm: time.Second, For: 10 * time.Second,
					Ask: waiting(tc.places, tc.takes)})
				began := time.Now()
				l.Run(t.Context())
				r := l.Report()
				if rate := float64(r.Requests) / r.Span.Seconds(); !r.Over || r.Why != "" || r.Span != 10*time.Second ||
					rate < 0.98*tc.rate || rate > 1.02*tc.rate {
					t.Errorf("%+v: %v/s, want %v", r, rate, tc.rate)
				}
				if r.Mean < tc.mean*98/100 || r.Mean > tc.mean*102/100 || r.P50 < tc.mean*9/10 || r.P99 < r.P50 {
					t.Errorf("%+v, want a mean of %s", r, tc.mean)
				}
				if took := time.Since(began); took > 12*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// What fails mostly is not asked on; what fails now and then is counted.
func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := waiting(1000, 10*time.Millisecond)
		n := 0
		l := drive.New(drive.Plan{Clients: 1, For: time.Minute, Ask: func(ctx context.Context, c int) error {
			if n++; n%3 == 0 {
				time.Sleep(time.Millisecond)
				return errors.New("odd")
			}
			return ask(ctx, c)
		}})
		l.Run(t.Context())
		if r := l.Report(); r.Why != "" || r.Errors < r.Requests/3 || r.Errors > r.Requests || r.Requests == 0 {
			t.Errorf("%+v", r)
		}
		asked := 0
		began := time.Now()
		l = drive.New(drive.Plan{Clients: 1, For: time.Minute, Ask: func(context.Context, int) error {
			asked++
			time.Sleep(time.Millisecond)
			return errors.New("status 404")
		}})
		l.Run(t.Context())
		if r := l.Report(); !r.Over || !strings.Contains(r.Why, "20 of 20 requests failed, the last: status 404") ||
			asked != 20 {
			t.Errorf("%+v after %d", r, asked)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		// Too few to judge while it goes on, and none of them good.
		l = drive.New(drive.Plan{Clients: 1, For: time.Second, Ask: func(context.Context, int) error {
			time.Sleep(300 * time.Millisecond)
			return errors.New("status 500")
		}})
		l.Run(t.Context())
		if r := l.Report(); !strings.Contains(r.Why, "requests failed") {
			t.Errorf("%+v", r)
		}
	})
}

func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		l := drive.New(drive.Plan{Clients: 3, Warm: time.Second, For: time.Minute,
			Ask: waiting(3, 10*time.Millisecond)})
		began := time.Now()
		l.Run(ctx)
		if r := l.Report(); time.Since(began) != 5*time.Second || !r.Over || r.Why == "" || r.Span != 4*time.Second {
			t.Errorf("%s: %+v", time.Since(began), r)
		}
		// Who does not answer at all does not hold it for ever.
		l = drive.New(drive.Plan{Clients: 3, For: time.Second, Ask: waiting(3, time.Hour)})
		began = time.Now()
		l.Run(t.Context())
		if r := l.Report(); time.Since(began) != 3*time.Second || !strings.Contains(r.Why, "nothing was answered") {
			t.Errorf("%s: %+v", time.Since(began), r)
		}
	})
}

// The times of a million requests are known well from some thousands of them.
func TestPercentiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		l := drive.New(drive.Plan{Clients: 1, For: 500 * time.Second, Ask: func(context.Context, int) error {
			n++
			time.Sleep(time.Duration(n*7919%1000+1) * time.Microsecond * 10)
			return nil
		}})
		l.Run(t.Context())
		r := l.Report()
		if r.P50 < 4700*time.Microsecond || r.P50 > 5300*time.Microsecond || r.P99 < 9800*time.Microsecond ||
			r.P99 > 10*time.Millisecond {
			t.Errorf("%+v", r)
		}
	})
}
