package rollout

import (
	"math/rand/v2"
	"testing"
)

// asked lets n requests come to a side, of which a part fails.
func asked(rng *rand.Rand, n int, part float64) (c Count) {
	for range n {
		c.Requests++
		if rng.Float64() < part {
			c.Failed++
		}
	}
	return c
}

// What is said is of enough requests, and not of what failed as much before.
func TestWorse(t *testing.T) {
	for name, c := range map[string]struct {
		bound         float64
		before, after Count
		want          bool
	}{
		"three of three":           {0.01, Count{1000, 0}, Count{3, 3}, false},
		"five of five":             {0.01, Count{1000, 0}, Count{5, 5}, true},
		"five of many":             {0.01, Count{1000, 0}, Count{400, 5}, false},
		"four of many":             {0.01, Count{1000, 0}, Count{20, 4}, false},
		"all good":                 {0.01, Count{1000, 0}, Count{1000, 0}, false},
		"half":                     {0.01, Count{1000, 2}, Count{40, 20}, true},
		"as bad as before":         {0.01, Count{1000, 500}, Count{100, 50}, false},
		"as bad, few before":       {0.01, Count{10, 10}, Count{100, 100}, false},
		"worse than bad":           {0.01, Count{1000, 300}, Count{1000, 400}, true},
		"within the bound":         {0.10, Count{1000, 0}, Count{1000, 80}, false},
		"certainly above it":       {0.05, Count{1000, 0}, Count{1000, 80}, true},
		"nothing known of before":  {0.01, Count{}, Count{100, 50}, true},
		"one asked before":         {0.01, Count{1, 0}, Count{100, 50}, false},
		"nobody looks":             {1, Count{1000, 0}, Count{1000, 1000}, false},
		"more failed than answers": {0.01, Count{1000, 0}, Count{30, 90}, true},
	} {
		if why := Worse(c.bound, c.before, c.after); (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
	want := "of the requests to the new revision 20 of 40 failed (50%), of those to the one before 2 of 1000 failed (0.2%); more than 1% are too many (max_errors)"
	if why := Worse(0.01, Count{1000, 2}, Count{40, 20}); why != want {
		t.Error(why)
	}
}

// A revision that fails as often as the one before is stopped in few rollouts, though it is
// looked at hundreds of times in each; one that fails clearly more often is in nearly all,
// also where that begins late.
func TestHowOftenTheGateIsWrong(t *testing.T) {
	const rollouts, looks = 300, 300 // ten minutes
	run := func(before, after func(look int) float64) (stopped int, when float64) {
		rng := rand.New(rand.NewPCG(1, 2))
		for range rollouts {
			var a, b Count
			for look := range looks {
				b.Add(asked(rng, 40, before(look)))
				a.Add(asked(rng, 10, after(look)))
				Fade(&b, &a)
				if Worse(0.01, b, a) != "" {
					stopped++
					when += float64(look)
					break
				}
			}
		}
		return stopped, when / max(1, float64(stopped))
	}
	same := func(p float64) func(int) float64 { return func(int) float64 { return p } }
	for _, p := range []float64{0, 0.005, 0.01, 0.03, 0.1, 0.5} {
		n, _ := run(same(p), same(p))
		t.Logf("both fail in %.1f%%: %d of %d stopped", 100*p, n, rollouts)
		if n > rollouts/50 {
			t.Errorf("what fails in %.1f%% as before is stopped in %d of %d rollouts", 100*p, n, rollouts)
		}
	}
	for _, c := range []struct {
		before, after float64
		within        float64 // looks, on average
	}{{0, 0.05, 60}, {0.005, 0.1, 20}, {0.02, 0.5, 6}, {0.2, 0.5, 20}} {
		n, when := run(same(c.before), same(c.after))
		t.Logf("%.1f%% and %.1f%%: %d of %d stopped, after %.1f looks", 100*c.before, 100*c.after, n, rollouts, when)
		if n < rollouts*98/100 || when > c.within {
			t.Errorf("%.1f%% after %.1f%%: %d of %d stopped, after %.1f looks", 100*c.after, 100*c.before, n, rollouts, when)
		}
	}
	late := func(look int) float64 {
		if look < looks/2 {
			return 0
		}
		return 0.5
	}
	if n, when := run(same(0.001), late); n < rollouts*98/100 || when > looks/2+40 {
		t.Errorf("what fails late: %d of %d stopped, at look %.1f of %d", n, rollouts, when, looks)
	}
}
