// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package experiments

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/mu"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/lab/experiments/proxymity"
	"github.com/verge-edge/verge/internal/lab/experiments/study"
)

// Those that take a moment run here in their quick form; make lab runs all of them in
// full.
func TestVirtualExperimentsMeetTheirRequirements(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []experiment.Experiment{mu.Agility, study.CallMethod, promises.PlaceQuality} {
		rows, short, err := x.Run(t.Context(), experiment.Options{Quick: true, Seed: 1})
		if err != nil || short != nil || len(rows) == 0 {
			t.Errorf("%s: %d rows, %v %v", x.Name, len(rows), short, err)
		}
		if err := x.Save(dir, rows); err != nil {
			t.Error(err)
		}
	}
	for _, x := range []experiment.Experiment{promises.RouteRandom, promises.RouteTails, promises.ScaleRandom} {
		rows, short, err := x.Run(t.Context(), experiment.Options{Quick: true, Seed: 2})
		if err != nil || short != nil || len(rows) == 0 {
			t.Errorf("%s: %d rows, %v %v", x.Name, len(rows), short, err)
		}
		for _, r := range rows {
			if r.Params["kind"] == "all" {
				t.Logf("%s %s: %v", x.Name, r.Metric, r.Measured)
			}
		}
	}
	again, _, err := study.CallMethod.Run(t.Context(), experiment.Options{Quick: true, Seed: 1})
	first, _, err2 := study.CallMethod.Run(t.Context(), experiment.Options{Quick: true, Seed: 1})
	if err != nil || err2 != nil || len(again) != len(first) || again[3].Measured != first[3].Measured {
		t.Errorf("the same seed, and another result: %v %v", err, err2)
	}
	file, err := Report(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "## mu-agility (in virtual time)") || !strings.Contains(string(text), "![mu-agility](mu-agility.svg)") {
		t.Errorf("%v: %.500s", err, text)
	}
}

// An experiment with two forms keeps their results apart.
func TestForms(t *testing.T) {
	x, err := Find("kubeedge-local")
	if err != nil {
		t.Fatal(err)
	}
	v, err := x.InVirtualTime()
	if err != nil || v.Emulated || v.Lab != nil {
		t.Errorf("%+v %v", v, err)
	}
	if both := slices.Contains(x.Forms(), "lab"); both != (v.Suffix != "") {
		t.Errorf("forms %v, suffix %q", x.Forms(), v.Suffix)
	}
	if _, err := proxymity.Imbalance.InVirtualTime(); err == nil || !strings.Contains(err.Error(), "verge lab run") {
		t.Error(err)
	}
	if c := Virtual(); len(c) < len(virtual) {
		t.Errorf("%d in virtual time", len(c))
	}
	dir := t.TempDir()
	if err := v.Save(dir, experiment.Rows{{Experiment: x.Name, Metric: "throughput", Unit: "1/s", Params: map[string]any{"load": "a", "policy": "b"}, Measured: 1}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, x.Name+v.Suffix+".json")); err != nil {
		t.Error(err)
	}
}
