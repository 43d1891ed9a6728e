package kpa

import (
	"testing"
	"time"
)

var start = time.Unix(1e9, 0)

// played tells a scaler so much for so many seconds and asks it at each.
func played(s *Scaler, from time.Time, seconds int, value float64, ready func(int) int) (pods []int, end time.Time) {
	for range seconds {
		from = from.Add(time.Second)
		s.Observe(value, from)
		last := 1
		if len(pods) > 0 {
			last = pods[len(pods)-1]
		}
		n, _ := s.Decide(ready(last), from)
		pods = append(pods, n)
	}
	return pods, from
}

func follows(n int) int { return n }

func TestScaler(t *testing.T) {
	s := NewScaler(70)
	if _, ok := s.Decide(0, start); ok {
		t.Error("it decided of nothing")
	}
	steady, now := played(s, start, 70, 339, follows)
	if steady[0] != 5 || steady[69] != 5 {
		t.Errorf("a first second counts in full: %d, then %d", steady[0], steady[69])
	}
	burst, now := played(s, now, 6, 1400, follows)
	if burst[5] != 20 {
		t.Errorf("panic: %d", burst)
	}
	less, now := played(s, now, 50, 70, follows)
	if less[49] != 20 {
		t.Errorf("fewer in panic: %d", less)
	}
	after, now := played(s, now, 30, 70, follows)
	if after[29] != 1 {
		t.Errorf("after it: %d", after)
	}
	if none, _ := played(s, now, 61, 0, follows); none[60] != 0 {
		t.Errorf("to zero: %d", none)
	}
	s = NewScaler(70)
	_, now = played(s, start, 130, 70, func(int) int { return 15 })
	if n, _ := s.Decide(15, now); n != 7 {
		t.Errorf("at most half at once: %d", n)
	}
	if n, _ := s.Decide(15, now.Add(30*time.Second)); n != 7 {
		t.Errorf("a silence of half a window: %d", n)
	}
	if _, ok := s.Decide(15, now.Add(61*time.Second)); ok {
		t.Error("it decided after a window of silence")
	}
}

func TestWindow(t *testing.T) {
	w := newWindow(6 * time.Second)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	for _, x := range []struct {
		second int
		value  float64
		mean   float64
	}{{0, 6, 6}, {1, 0, 3}, {3, 2, 2}, {5, 4, 2}, {6, 6, 2}, {12, 5, 5}, {12, 1, 6}, {17, 6, 2}} {
		w.add(x.value, at(x.second))
		if got := w.mean(at(x.second)); got != x.mean {
			t.Errorf("second %d: %v, not %v", x.second, got, x.mean)
		}
	}
	if got := w.mean(at(20)); got != 2 {
		t.Errorf("three seconds later the other three count: %v", got)
	}
	if got := w.mean(at(23)); got != 0 {
		t.Errorf("a window later: %v", got)
	}
}

func TestHPA(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := HPA{Target: 0.7}
	for _, x := range []struct {
		u           float64
		ready, want int
		after       time.Duration
	}{{0.74, 4, 4, 0}, {1, 4, 6, 15 * time.Second}, {0.2, 6, 6, 30 * time.Second}, {0.2, 6, 2, 400 * time.Second}, {1, 2, 3, 500 * time.Second}} {
		if n := h.Decide(x.u, x.ready, now.Add(x.after)); n != x.want {
			t.Errorf("%+v: %d", x, n)
		}
	}
}
