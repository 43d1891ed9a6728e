package placement

import (
	"math"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// Shares of GPUs are packed into single ones, and what is too small for anybody counts
// as lost.
func TestGPUs(t *testing.T) {
	w := worker(0, 8, 8*gib)
	for _, id := range []string{"gpu0", "gpu1"} {
		w.Devices = append(w.Devices, device.Device{Device: wire.Device{ID: id, Type: api.DeviceGPU}})
		w.Capacity.VGPUs += 1000
	}
	want := demand(1, gib)
	want.VGPUs = 600
	s := &Scenario{Name: "gpus", Workers: []Worker{w}, Services: []Service{{Name: "a.b", Replicas: 3, Demand: want}}}
	for _, by := range []Scheduler{Baseline, {Name: "rom"}} {
		r, err := Run(t.Context(), s, by)
		if err != nil {
			t.Fatal(err)
		}
		q := Measure(r)
		if r.Placed != 2 || math.Abs(q.FragmentsGPU-0.4) > 1e-9 || math.Abs(q.PlacedGPU-2./3) > 1e-9 {
			t.Errorf("%s: %d placed, %g of the GPUs lost, %g placed", by.Name, r.Placed, q.FragmentsGPU, q.PlacedGPU)
		}
	}
	if s.Workers[0].Devices[0].Used != 0 {
		t.Error("a run changed its scenario")
	}
}

// All pods with all GPUs of the cluster ask for 98 % of these.
func TestOpenBAsksForGPUs(t *testing.T) {
	s, err := OpenB(1, true, 1)
	if err != nil {
		t.Fatal(err)
	}
	var there, asked api.Units
	for _, w := range s.Workers {
		there += w.Capacity.VGPUs
	}
	for _, v := range s.Services {
		asked += v.Demand.VGPUs
	}
	if there != 6_212_000 || asked != 6_086_800 {
		t.Errorf("%d of %d thousandths", asked, there)
	}
}

// What the experiment place-quality requires of rom with GPUs, on every eighth node and pod.
func TestGPUsAreUsed(t *testing.T) {
	s, err := OpenB(1, true, 1)
	if err != nil {
		t.Fatal(err)
	}
	few := &Scenario{Name: "an eighth of openb"}
	for i := 1; i < len(s.Workers); i += 8 {
		few.Workers = append(few.Workers, s.Workers[i])
	}
	for i := 1; i < len(s.Services); i += 8 {
		few.Services = append(few.Services, s.Services[i])
	}
	measured := func(by Scheduler) (int, Quality) {
		r, err := Run(t.Context(), few, by)
		if err != nil {
			t.Fatal(err)
		}
		return r.Placed, Measure(r)
	}
	theirs, their := measured(Baseline)
	ours, our := measured(Scheduler{Name: place.ROM})
	// Which pods come decides about a few of a thousand.
	if float64(ours) < 0.995*float64(theirs) || our.PlacedGPU < their.PlacedGPU ||
		our.FragmentsGPU > 0.8*their.FragmentsGPU {
		t.Errorf("rom places %d pods, %.3f of the GPUs, %.3f are of no use; Kubernetes %d, %.3f and %.3f",
			ours, our.PlacedGPU, our.FragmentsGPU, theirs, their.PlacedGPU, their.FragmentsGPU)
	}
	for j, what := range []string{"cores", "memory"} {
		if our.Fragments[j] > their.Fragments[j] {
			t.Errorf("rom leaves %.4f of the %s without use, Kubernetes %.4f", our.Fragments[j], what, their.Fragments[j])
		}
	}
}
