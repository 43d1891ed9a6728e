package labcmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// An experiment that fails, or falls short, stops none of those after it; both are said at the end,
// and what was measured until then is kept.
func TestFailuresStopNoExperiment(t *testing.T) {
	ran := func(name, short string, err error) experiment.Experiment {
		return experiment.Experiment{Name: name, Virtual: func(_ context.Context, e *experiment.Env) error {
			e.Row(experiment.Row{Metric: "m", Measured: 1, Short: short})
			return err
		}}
	}
	dir := t.TempDir()
	todo := []experiment.Experiment{ran("breaks", "", errors.New("no such host")), ran("misses", "1 is too little", nil), ran("works", "", nil)}
	sheet, short, err := runExperiments(t.Context(), todo, Run{Dir: dir}, experiment.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rows, ok := sheet.(experiment.Rows); !ok || len(rows) != 3 {
		t.Errorf("%v", sheet)
	}
	for _, want := range []string{"breaks: no such host", "misses", "1 is too little"} {
		if short == nil || !strings.Contains(short.Error(), want) {
			t.Errorf("%v does not say %q", short, want)
		}
	}
	for file, want := range map[string]string{
		"breaks.run.json": "no such host", "breaks.json": `"measured": 1`, "works.run.json": `"began"`, "works.json": `"measured": 1`,
	} {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: %s, %v", file, b, err)
		}
	}
	// Who breaks it off gets no results.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := runExperiments(ctx, todo, Run{}, experiment.Options{}); err == nil {
		t.Error("a run that was broken off is taken for one that was not")
	}
}
