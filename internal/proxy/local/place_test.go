package local

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
)

func TestWakeBefore(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ left, want time.Duration }{
		{0, wakeTimeout}, {time.Second, 900 * time.Millisecond}, {10 * time.Second, 10*time.Second - wakeMargin},
		{time.Hour, wakeTimeout},
	} {
		deadline := time.Time{}
		if c.left > 0 {
			deadline = now.Add(c.left)
		}
		if got := wakeBefore(now, deadline).Sub(now); got != c.want {
			t.Errorf("with %v left it waits %v, want %v", c.left, got, c.want)
		}
	}
}

func TestRefusalsOfStarts(t *testing.T) {
	var re *failure.RefusedError
	if err := refusal("a.b.0", &StartError{Why: "x", Again: time.Second}); !errors.As(err, &re) ||
		re.Why != failure.RefusedStart || re.Again != time.Second {
		t.Errorf("%v", err)
	}
	for v, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "1e9": 0,
		"99999999999": 0, "Wed, 21 Oct 2015 07:28:00 GMT": 0} {
		if got := httpmsg.ParseRetryAfter(v); got != want {
			t.Errorf("Retry-After %q is %v, want %v", v, got, want)
		}
	}
}
