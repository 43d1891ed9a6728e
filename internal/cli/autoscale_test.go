package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
)

// A morning in ten minutes: nobody, a few, a crowd, nobody.
const morning = "time,calls\n0,0\n20,300\n120,6000\n240,1200\n360,0\n480,0\n"

func TestAutoscaleReplay(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	file := filepath.Join(f.dir, "morning.csv")
	table := filepath.Join(f.dir, "functions.csv")
	for path, text := range map[string]string{file: morning,
		table: "HashOwner,HashApp,HashFunction,Trigger,1,2,3\no,a,f,http,60,120,60\no,a,g,http,600,1200,600\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, line := range map[string]string{
		"autoscale-replay":     "autoscale replay FILE",
		"autoscale-replay-csv": "autoscale replay FILE --only hpa --only verge --min 1 --start 500ms -o csv",
		"autoscale-replay-json": "autoscale replay FILE --only verge --exec 40ms --concurrency 2 --slo 300ms " +
			"--grace 4 --seed 7 -o json",
		"autoscale-replay-row":       "autoscale replay TABLE --row 2 --speed 10 --mean 50 --only kpa-rps -o json",
		"autoscale-replay-no-row":    "autoscale replay TABLE",
		"autoscale-replay-far-row":   "autoscale replay TABLE --row 3",
		"autoscale-replay-no-file":   "autoscale replay",
		"autoscale-replay-no-such":   "autoscale replay FILE.none",
		"autoscale-replay-unknown":   "autoscale replay FILE --only magic",
		"autoscale-replay-bounds":    "autoscale replay FILE --min 5 --max 4",
		"autoscale-replay-too-long":  "autoscale replay TABLE --row 2 --step 24h --speed 0.01",
		"autoscale-replay-too-many":  "autoscale replay FILE --mean 100000",
		"autoscale-replay-plot":      "autoscale replay FILE --plot FILE.svg",
		"autoscale-replay-bad-speed": "autoscale replay FILE --speed NaN",
	} {
		args := strings.Fields(strings.NewReplacer("FILE", file, "TABLE", table).Replace(line))
		f.golden(name, f.run(args...), strings.Fields(f.clean(strings.Join(args, " ")))...)
	}
	if r := f.runWith("60\n\n60x\n", "autoscale", "replay", "-"); r.code != 1 ||
		!strings.Contains(r.stderr, "line 3: \"60x\"") {
		t.Errorf("%+v", r)
	}
	one, two := f.run("autoscale", "replay", file, "-o", "csv"),
		f.runWith(morning, "autoscale", "replay", "-", "-o", "csv")
	if one != two || one.code != 0 {
		t.Errorf("the same again is something else:\n%+v\n%+v", one, two)
	}
}

func TestAutoscaleReplayPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "morning.svg")
	run := func(file string) (code int, out, problems string) {
		var o, e strings.Builder
		code = Main(t.Context(), []string{"autoscale", "replay", "-", "--only", "verge", "--only", "hpa", "--plot",
			file}, strings.NewReader(morning), &o, &e,
			Options{Getenv: func(string) string { return "" }})
		return code, o.String(), e.String()
	}
	if code, out, problems := run(file); code != 0 || !strings.Contains(out, "verge") {
		t.Fatal(code, out, problems)
	}
	svg, err := os.ReadFile(file)
	if err != nil || strings.Count(string(svg), "<polyline") != 3 || strings.Count(string(svg), "<svg") != 1 ||
		!strings.Contains(string(svg), ">hpa</text>") || !strings.Contains(string(svg), ">minutes</text>") ||
		!strings.Contains(string(svg), ">9.97</text>") {
		t.Errorf("%v\n%.500s", err, svg)
	}
	if code, _, problems := run(filepath.Join(file, "none")); code != 1 ||
		!strings.Contains(problems, "write the plot") {
		t.Error(code, problems)
	}
}
