package eject_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/eject"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestBackOffDoublesUpToItsCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		var h eject.Health
		now := epoch
		bound := eject.FirstProbe
		for k := range 100 {
			h = h.Failed(now, seed)
			due, ok := h.ProbeDue()
			if !ok || !h.Ejected() {
				t.Fatalf("failure %d did not eject", k)
			}
			if d := due.Sub(now); d < bound/2 || d > bound {
				t.Fatalf("failure %d: probe after %v, want %v to %v", k, d, bound/2, bound)
			}
			now = due
			bound = min(2*bound, eject.MaxProbe)
		}
	})
}

func TestOneOutageCountsOnce(t *testing.T) {
	h := eject.Health{}.Failed(epoch, 1)
	due, _ := h.ProbeDue()
	for range 1000 {
		h = h.Failed(epoch.Add(time.Millisecond), 1)
	}
	if got, _ := h.ProbeDue(); !got.Equal(due) || h.Failures() != 1 {
		t.Fatalf("%d failures, probe moved by %v", h.Failures(), got.Sub(due))
	}
	if h = h.Failed(due, 1); h.Failures() != 2 {
		t.Fatalf("a failed probe left the count at %d", h.Failures())
	}
}

func TestSuccessLetsInAndRecordExpires(t *testing.T) {
	h := eject.Health{}
	now := epoch
	for range 4 {
		h = h.Failed(now, 9)
		now, _ = h.ProbeDue()
	}
	h = h.Succeeded()
	if _, due := h.ProbeDue(); due || h.Ejected() {
		t.Fatal("still ejected after a success")
	}
	if again := h.Failed(now.Add(time.Second), 9); again.Failures() != 5 {
		t.Fatalf("an early relapse counts %d failures, want 5", again.Failures())
	}
	if again := h.Failed(now.Add(eject.Forget+time.Second), 9); again.Failures() != 1 {
		t.Fatalf("a late relapse counts %d failures, want 1", again.Failures())
	}
}

func TestProbeNow(t *testing.T) {
	if (eject.Health{}).ProbeNow(epoch).Ejected() {
		t.Fatal("a hint ejected a healthy endpoint")
	}
	h := eject.Health{}.Failed(epoch, 1).ProbeNow(epoch)
	if due, _ := h.ProbeDue(); !due.Equal(epoch) {
		t.Fatalf("probe due at %v, want %v", due, epoch)
	}
}

func TestJitterDependsOnTheSeed(t *testing.T) {
	seen := map[time.Time]bool{}
	for seed := range uint64(100) {
		due, _ := eject.Health{}.Failed(epoch, seed).ProbeDue()
		seen[due] = true
	}
	if len(seen) < 95 {
		t.Fatalf("100 seeds gave %d different times", len(seen))
	}
}
