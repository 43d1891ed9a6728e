package quorumtest

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

var (
	first = flag.Uint64("seed", 1, "the first seed")
	seeds = flag.Uint64("seeds", 1000, "how many seeds; one alone tells all that happens")
)

// Runs make garbage and hold little.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// options of a seed: an eighth each has a witness, five servers, and one server that others join.
func options(seed uint64) Options {
	o := Options{Servers: 3, Faults: true, Span: 15 * time.Second, Clients: 4}
	switch seed % 8 {
	case 1:
		o.Witness = true
	case 2:
		o.Servers = 5
	case 3:
		o.Grow = true
	}
	return o
}

func TestSeeds(t *testing.T) {
	n := *seeds
	var sum Result
	for seed := *first; seed < *first+n; seed++ {
		o := options(seed)
		if n == 1 {
			o.Log = os.Stdout
		}
		r := Run(seed, o)
		if r.Violation != nil {
			t.Errorf("seed %d: %v (go test ./internal/quorum/quorumtest -run TestSeeds -seed %d -seeds 1 -v)", seed, r.Violation, seed)
		}
		sum.Acknowledged += r.Acknowledged
		sum.Reads += r.Reads
		sum.Unknown += r.Unknown
		sum.Terms += r.Terms
		sum.Snapshots += r.Snapshots
		sum.Quarantined += r.Quarantined
		sum.Replaced += r.Replaced
		sum.Torn += r.Torn
	}
	t.Logf("%d seeds: %d writes and %d reads, %d writes of unknown outcome, %d terms, %d snapshots received, %d torn batches, "+
		"%d quarantines, %d changes of members", n, sum.Acknowledged, sum.Reads, sum.Unknown, sum.Terms, sum.Snapshots, sum.Torn,
		sum.Quarantined, sum.Replaced)
	if n < 250 {
		return
	}
	// What never happens is not tested.
	for what, count := range map[string]int{
		"snapshots": sum.Snapshots, "torn batches": sum.Torn, "quarantines": sum.Quarantined, "changes of members": sum.Replaced,
		"unknown outcomes": sum.Unknown,
	} {
		if count == 0 {
			t.Errorf("there were no %s", what)
		}
	}
	if sum.Acknowledged < int(n)*100 || sum.Reads < int(n)*50 { //nolint:gosec // a few thousand
		t.Errorf("only %d writes and %d reads", sum.Acknowledged, sum.Reads)
	}
}

// A seed gives the same run each time.
func TestSameSeedSameRun(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := range uint64(16) {
		a, b := Run(seed, options(seed)), Run(seed, options(seed))
		if a != b {
			t.Errorf("seed %d: %+v, and then %+v", seed, a, b)
		}
		if other, twice := seen[a.Trace]; twice {
			t.Errorf("seeds %d and %d are the same run", seed, other)
		}
		seen[a.Trace] = seed
	}
}

// Each planted bug is found within 200 seeds: what the simulation does not find is not proved by
// its silence.
func TestPlantedBugsAreFound(t *testing.T) {
	for name, bug := range map[string]Bug{
		"no sync": NoSync, "acknowledged at one": AckAtOne, "vote forgotten": ForgetVote, "applied early": ApplyEarly,
		"id used again": ReuseID, "torn is damaged": TornIsDamaged, "damaged is torn": DamagedIsTorn,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 200; seed++ {
				o := options(seed)
				o.Bug = bug
				if r := Run(seed, o); r.Violation != nil {
					t.Logf("seed %d: %v", seed, r.Violation)
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

// From the loss of a leader to the next acknowledged write.
func TestFailover(t *testing.T) {
	const n = uint64(2000)
	for _, c := range []struct {
		name string
		loss Loss
		most time.Duration
	}{
		{"killed", Killed, 300 * time.Millisecond},
		{"frozen", Frozen, 2 * time.Second},
		{"cut off", CutOff, 2 * time.Second},
	} {
		var took []time.Duration
		for seed := range n {
			d, err := Failover(seed, c.loss)
			if err != nil || d == 0 || d > c.most {
				t.Errorf("%s, seed %d: a write after %v, %v, want at most %v", c.name, seed, d, err, c.most)
			}
			took = append(took, d)
		}
		slices.Sort(took)
		at := func(p int) string { return fmt.Sprint(took[(len(took)-1)*p/100].Round(time.Millisecond)) }
		t.Logf("%s: p50 %s, p90 %s, p99 %s, max %s", c.name, at(50), at(90), at(99), at(100))
	}
}

// A disk that says that it has synced, and has not, may cost what was acknowledged if its power
// is cut: nobody can keep what nobody has. Mostly the server is found out and quarantined.
func TestOneLyingDisk(t *testing.T) {
	const n = 60
	violations, quarantined := 0, 0
	for seed := range uint64(n) {
		o := options(seed)
		o.Lying = true
		r := Run(seed, o)
		quarantined += r.Quarantined
		if r.Violation != nil {
			violations++
		}
	}
	t.Logf("%d seeds with a lying disk: %d quarantines, %d violations", n, quarantined, violations)
	if quarantined < n/2 || violations == 0 || violations > n/3 {
		t.Errorf("%d quarantines and %d violations in %d seeds", quarantined, violations, n)
	}
}
