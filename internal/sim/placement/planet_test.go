package placement

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// Workers come and go, some clusters lie, reports are old: nothing is overcommitted
// (Run says so), most is placed all the same, and nobody who could take something is
// passed over for ever.
func TestPlanet(t *testing.T) {
	o := Planet{Clusters: 20, Workers: 50, Seconds: 180, Churn: 0.1, Away: 120, Deploy: 0.3, Report: 10, Liars: 0.1,
		Seed: 1}
	r, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Services < 40 || float64(r.Placed) < 0.95*float64(r.Instances) || r.Left < 200 || r.Replaced == 0 {
		t.Errorf("%d services, %d of %d instances placed, %d workers left, %d replaced", r.Services, r.Placed,
			r.Instances, r.Left, r.Replaced)
	}
	if r.Refused == 0 || r.Refused > r.Offered {
		t.Errorf("%d of %d refused, with a tenth of the clusters lying", r.Refused, r.Offered)
	}
	again, err := o.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*PlanetResult{r, again} {
		x.Root, x.Cluster, x.Report, x.Heap = make([]time.Duration, len(x.Root)), make([]time.Duration, len(x.Cluster)),
			make([]time.Duration, len(x.Report)), 0
	}
	if !reflect.DeepEqual(r, again) {
		t.Error("the second run differs")
	}
}

// Nobody with room for one is passed over, on no data.
func TestEstimates(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range append(scenarios(t), Random(1000, 1, 1)) {
		if s.Name == "openb" {
			s.Regroup(50, rng)
		}
		for _, full := range []float64{0, 0.5, 0.95} {
			e, err := Estimates(t.Context(), s, full, 20, rng)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, %g full: %+v", s.Name, full, e)
			if e.Starved > 0 || e.Cases() < 250 {
				t.Errorf("%s, %g full: %+v", s.Name, full, e)
			}
		}
	}
}
