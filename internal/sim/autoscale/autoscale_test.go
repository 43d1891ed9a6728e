package autoscale

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/sim/trace"
)

// A few traces, smooth and bursty: as much within the objective, with fewer pods.
func TestOursAgainstKnative(t *testing.T) {
	all, err := trace.Azure()
	if err != nil {
		t.Fatal(err)
	}
	set := Setting{Places: 10, QueueMax: 100, Exec: 100 * time.Millisecond, SLO: time.Second, Start: 2 * time.Second,
		Grace: 2, Seed: 1}
	for _, i := range []int{1, 15, 25} {
		v := trace.Scaled(all[i][300:420], 339)
		o, r := Run(set, Ours, v)[0], Run(set, RPS, v)[0]
		if o.Pods > 0.92*r.Pods || o.Share() < r.Share()-0.05 {
			t.Errorf("trace %d: ours %.4f with %.2f pods, by requests %.4f with %.2f", i, o.Share(), o.Pods, r.Share(),
				r.Pods)
		}
		if again := Run(set, Ours, v)[0]; again.Within != o.Within || !slices.Equal(again.Each, o.Each) {
			t.Error("the same again is something else")
		}
	}
}

// A burst of sixty replicas' work meets a single one: those it takes are ordered at once, and their
// number is reached with the first start.
func TestBurstFromOne(t *testing.T) {
	set := Setting{Places: 10, QueueMax: 100, Exec: 100 * time.Millisecond, SLO: time.Second, Start: 2 * time.Second,
		Seed: 1, Admission: AdmissionOfAll}
	v := make([]float64, 90)
	for i := range v {
		if v[i] = 20; i >= 30 {
			v[i] = 5000
		}
	}
	ours, theirs := Run(set, Ours, v)[0], Run(set, RPS, v)[0]
	if n := ours.Each[32]; n < 25 {
		t.Errorf("two seconds after the burst began there are %d", n)
	}
	if n := ours.Each[40]; n < 50 || n > 64 {
		t.Errorf("ten seconds after the burst began there are %d", n)
	}
	if ours.Share() < theirs.Share()-0.01 || ours.Pods > theirs.Pods {
		t.Errorf("%.4f with %.1f pods, Knative %.4f with %.1f", ours.Share(), ours.Pods, theirs.Share(), theirs.Pods)
	}
}

// With the defaults no scene has fewer requests in time than Knative and as many pods, whether all
// reject what they cannot answer in time or none does.
func TestNeverDominated(t *testing.T) {
	all, err := trace.Azure()
	if err != nil {
		t.Fatal(err)
	}
	for _, admission := range []Admission{AdmissionOfAll, AdmissionOfNone} {
		set := Setting{Places: 10, QueueMax: 100, Exec: 100 * time.Millisecond, SLO: time.Second, Start: 2 * time.Second,
			Seed: 1, Admission: admission}
		for i := 3; i < len(all); i += 8 {
			v := trace.Scaled(all[i], 339)[300:780]
			ours := Run(set, Ours, v)[0]
			for _, how := range []Algorithm{RPS, Concurrency} {
				theirs := Run(set, how, v)[0]
				if ours.Share() < theirs.Share() && ours.Pods >= theirs.Pods {
					t.Errorf("trace %d, admission of %s: %.4f with %.2f pods, %s %.4f with %.2f", i, admission, ours.Share(),
						ours.Pods, how, theirs.Share(), theirs.Pods)
				}
			}
		}
	}
}

// Two services want more than there is: none of them gets it all.
func TestContention(t *testing.T) {
	set := Setting{Places: 4, QueueMax: 100, Exec: 500 * time.Millisecond, SLO: 5 * time.Second, Start: 2 * time.Second,
		Most: 20, Seed: 1}
	a, b := make([]float64, 60), make([]float64, 60)
	for i := range a {
		a[i], b[i] = 200, 60
	}
	got := Run(set, Ours, a, b)
	for i := range got[0].Each {
		if n := got[0].Each[i] + got[1].Each[i]; n > 20 {
			t.Fatalf("second %d: %d pods of 20", i, n)
		}
	}
	if got[1].Share() < 0.8 {
		t.Errorf("who asks for less than its share got %.2f", got[1].Share())
	}
}

// Who asks alone waits for a start, not for the next who asks; a pod that may not go
// is there for him.
func TestAlone(t *testing.T) {
	set := Setting{Places: 1, QueueMax: 10, Exec: 100 * time.Millisecond, SLO: time.Second, Start: 3 * time.Second,
		Grace: 2, Seed: 1}
	v := make([]float64, 300)
	for i := 10; i < len(v); i += 120 {
		v[i] = 1
	}
	for _, how := range All() {
		alone := Run(set, how, v)[0]
		if alone.Requests == 0 || alone.Starts == 0 || alone.P99 > 6*time.Second {
			t.Errorf("%s: %d requests, %d starts, %v", how, alone.Requests, alone.Starts, alone.P99)
		}
		kept := set
		kept.Least = 1
		if got := Run(kept, how, v)[0]; got.Each[0] < 1 || got.P50 > set.Exec+time.Microsecond ||
			slices.Min(got.Each) < 1 {
			t.Errorf("%s with one that stays: %v, %v", how, got.P50, got.Each)
		}
	}
}
