package plugin

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	late := &Error{Class: Late, Text: "it did not answer in time"}
	var b Breaker
	for n := range maxFailures {
		if !b.May(now) || b.Open() {
			t.Fatalf("not asked after %d failures", n)
		}
		b = b.after(late, now)
	}
	rest := firstRest
	for n := range 12 {
		if b.May(now) || !b.Open() || b.Until != now.Add(rest) || b.Why != late.Text {
			t.Fatalf("try %d: %+v", n, b)
		}
		now = b.Until.Add(-1)
		if b.May(now) {
			t.Fatalf("try %d: asked too soon", n)
		}
		now = b.Until
		if !b.May(now) {
			t.Fatalf("try %d: not tried out", n)
		}
		var trial bool
		if b, trial = b.Asked(); !trial {
			t.Fatalf("try %d: it is no trial", n)
		}
		if b.May(now) || b.May(now.Add(time.Hour)) {
			t.Fatalf("try %d: tried out twice at a time", n)
		}
		b = b.Ended(trial, late, now)
		rest = min(2*rest, lastRest)
	}
	if rest != lastRest {
		t.Errorf("it rests for %s at last", rest)
	}
	b = b.after(nil, b.Until)
	if b != (Breaker{}) {
		t.Errorf("after an answer: %+v", b)
	}
}

// Questions that were open when it began to rest neither end its rest nor make it
// longer by failing, and end it by an answer; one that was never sent says nothing.
func TestBreakerAndQuestionsOfBefore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	late, ours := error(&Error{Class: Late, Text: "late"}), error(&Error{Class: TooLarge, Text: "large", Unasked: true})
	var b Breaker
	for range maxFailures {
		b = b.after(late, now)
	}
	until := b.Until
	if b = b.Ended(false, late, now.Add(time.Second)); b.Until != until || b.May(now.Add(time.Second)) {
		t.Errorf("an old failure counts: %+v", b)
	}
	b, _ = b.Asked()
	if b = b.Ended(false, late, until); b.May(until) || b.Until != until {
		t.Errorf("an old failure ends the trial: %+v", b)
	}
	if b = b.Ended(true, ours, until); !b.May(until) || b.Until != until {
		t.Errorf("what was not sent counts: %+v", b)
	}
	if b = b.Ended(false, nil, until.Add(-1)); b.Open() {
		t.Errorf("an old answer does not count: %+v", b)
	}
	if b = (Breaker{}).Ended(false, ours, now); b != (Breaker{}) {
		t.Errorf("what was not sent counts: %+v", b)
	}
}

// Whatever happens: no two questions at a time try it out, and it is never left alone
// for longer than lastRest while nothing is open.
func TestBreakerAlwaysComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now, b := time.Unix(1e9, 0), Breaker{}
		var open []bool // whether each is a trial
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			if rapid.Bool().Draw(t, "ask") {
				if b.May(now) {
					next, trial := b.Asked()
					if trial && (slices.Contains(open, true) && b.Failed > maxFailures ||
						next.May(now.Add(time.Hour))) {
						t.Fatalf("a second question may try it out: %+v", b)
					}
					b, open = next, append(open, trial)
				}
			} else if len(open) > 0 {
				n := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				b = b.Ended(open[n], rapid.SampledFrom([]error{nil, errors.New("no"), &Error{Unasked: true}}).Draw(t,
					"err"), now)
				open = slices.Delete(open, n, n+1)
			}
			if len(open) == 0 && !b.May(now.Add(lastRest)) {
				t.Fatalf("it is never asked again: %+v", b)
			}
		}
	})
}

// after is the breaker after a question.
func (b Breaker) after(err error, now time.Time) Breaker {
	next, trial := b.Asked()
	return next.Ended(trial, err, now)
}
