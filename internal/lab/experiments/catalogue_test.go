package experiments

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/proxymity"
)

func TestImbalanceMeetsItsRequirements(t *testing.T) {
	rows, short, err := proxymity.Imbalance.Run(t.Context(), experiment.Options{Quick: true, Seed: 1})
	if err != nil || short != nil {
		t.Fatal(err, short)
	}
	if len(rows) != 11*11 {
		t.Errorf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Params["alpha"] == 1.0 && r.Params["senders"] == 11 && math.Abs(r.Measured-0.0024) > 0.0001 {
			t.Errorf("%+v", r)
		}
	}
}

func TestCatalogue(t *testing.T) {
	all := All()
	var names []string
	for _, x := range all {
		names = append(names, x.Name)
		runs := len(x.Forms()) > 0
		if runs == (x.Missing != "") || x.Source == "" || runs && x.Shows == "" {
			t.Errorf("%s: it runs: %v, missing %q, shows %q", x.Name, runs, x.Missing, x.Shows)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(all) || len(all) < 20 {
		t.Errorf("%d experiments, %v", len(all), names)
	}
	for _, x := range all {
		if _, err := Find(x.Name); x.Missing != "" && (err == nil || !strings.Contains(err.Error(), "cannot be run")) {
			t.Errorf("%s: %v", x.Name, err)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), "verge lab list") {
		t.Error(err)
	}
}

// A row has the fields that programs rely on, null where there is nothing.
func TestRowsAsJSON(t *testing.T) {
	b, err := json.Marshal(experiment.Rows{{Experiment: "x", Params: map[string]any{"alpha": 0.5}, Metric: "m", Unit: "ms", Measured: 2, Expected: experiment.Known(3)}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"experiment":"x","params":{"alpha":0.5},"metric":"m","unit":"ms","paper":null,"expected":3,"measured":2,"emulator_error_p50_ms":null,"emulator_error_p99_ms":null}]`
	if string(b) != want {
		t.Errorf("%s, want\n%s", b, want)
	}
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	if _, err := Report(dir, ""); err == nil || !strings.Contains(err.Error(), "no results") {
		t.Error(err)
	}
	rows, _, err := proxymity.Imbalance.Run(t.Context(), experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows[3].Short = "it falls <short>"
	if err := proxymity.Imbalance.Save(dir, rows); err != nil {
		t.Fatal(err)
	}
	file, err := Report(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## proxymity-imbalance", "![proxymity-imbalance](proxymity-imbalance.svg)", "| alpha=1 senders=1 | share_stddev | 0.25 | 0.2563 | 0.2563 | 1 | 1.000 |", "No link was emulated", "it falls", "## Not run", "route-change"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "proxymity-imbalance.svg"))
	if err != nil || strings.Count(string(svg), "<polyline") != 11 || !strings.HasSuffix(string(svg), "</svg>\n") {
		t.Errorf("the picture: %v\n%.300s", err, svg)
	}
	if _, err := os.Stat(filepath.Join(dir, "proxymity-imbalance.csv")); err != nil {
		t.Error(err)
	}
}

// A report that is written elsewhere is short, has its pictures beside it, and says when and
// where it was measured, and what failed.
func TestBriefReport(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	x := proxymity.Imbalance
	rows, _, err := x.Run(t.Context(), experiment.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	rows[3].Short = "it falls short"
	record := experiment.Begin(experiment.Options{Seed: 1}, "1.2.3")
	record.End(errors.New("the switch has ended"))
	if err := errors.Join(x.Save(dir, rows), x.SaveRecord(dir, record)); err != nil {
		t.Fatal(err)
	}
	pictures := filepath.Join(out, "lab-report")
	if err := errors.Join(os.Mkdir(pictures, 0o755), os.WriteFile(filepath.Join(pictures, "oakestra-idle.svg"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	file, err := Report(dir, filepath.Join(out, "lab-report.md"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		"[proxymity-imbalance](#proxymity-imbalance)", "| 1, and it failed |", "(lab-report/proxymity-imbalance.svg)", "**not met**: it falls short",
		"alpha=1 senders=1 |", "more rows are in the results, proxymity-imbalance.csv", "Measured on: ", "the switch has ended", "seed 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "share_stddev"); n > 80 {
		t.Errorf("%d rows", n)
	}
	if list, err := filepath.Glob(pictures + "/*"); err != nil || len(list) != 1 || filepath.Base(list[0]) != "proxymity-imbalance.svg" {
		t.Errorf("pictures %v, %v", list, err)
	}
}

func TestShares(t *testing.T) {
	for _, decay := range []string{"inverse", "power", "exponential"} {
		for _, alpha := range []float64{0, 0.3, 1} {
			w := proxymity.Shares([]float64{0.3, 4, 2000}, alpha, 2, decay)
			sum := 0.0
			for _, x := range w {
				sum += x
			}
			if math.Abs(sum-1) > 1e-9 || w[0] < w[1] || w[1] < w[2] {
				t.Errorf("%s, alpha %g: %v", decay, alpha, w)
			}
		}
	}
}
