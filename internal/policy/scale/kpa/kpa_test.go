package kpa

import (
	"testing"
	"time"
)

func TestScaler(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := Scaler{Target: 70}
	if n := s.Decide(339, 339, 5, now); n != 5 {
		t.Errorf("steady: %d", n)
	}
	if n := s.Decide(400, 1000, 5, now); n != 15 {
		t.Errorf("panic: %d", n)
	}
	if n := s.Decide(100, 100, 15, now.Add(50*time.Second)); n != 15 {
		t.Errorf("fewer in panic: %d", n)
	}
	if n := s.Decide(100, 100, 15, now.Add(61*time.Second)); n != 7 {
		t.Errorf("after it, at most half: %d", n)
	}
	if n := s.Decide(0, 0, 1, now.Add(62*time.Second)); n != 0 {
		t.Errorf("to zero: %d", n)
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
