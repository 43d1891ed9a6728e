package cli

import (
	"compress/gzip"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

var docBlocks = regexp.MustCompile("(?ms)^```(sh|csv|yaml)\n(.*?)^```")

// What docs/scaling.md tells to type works, with the files that it has.
func TestScalingDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/scaling.md")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.Open("../sim/trace/azure.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	functions, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, &resttest.Fake{MetricData: resttest.MetricData{Scales: []rpc.ScaleReport{{V: 1, Cluster: "edge", App: "shop", Service: "front",
		Max: 20, Placed: 1}}}})
	t.Chdir(f.dir)
	run := func(stdin string, args ...string) {
		t.Helper()
		var out, problems strings.Builder
		if code := Main(t.Context(), args, strings.NewReader(stdin), &out, &problems, f.options()); code != 0 ||
			out.Len() == 0 {
			t.Errorf("verge %s: %d\n%s%s", strings.Join(args, " "), code, out.String(), problems.String())
		}
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ran := 0
	for _, b := range docBlocks.FindAllStringSubmatch(string(text), -1) {
		switch b[1] {
		case "csv":
			write("calls.csv", b[2])
		case "yaml":
			run(b[2], "validate", "-")
		case "sh":
			for line := range strings.Lines(b[2]) {
				words := strings.Fields(line)
				switch {
				case words[0] == "verge":
					run("", words[1:]...)
					ran++
				case line == "gunzip -c internal/sim/trace/azure.csv.gz > functions.csv\n":
					write("functions.csv", string(functions))
				default:
					t.Errorf("nobody tries %q", line)
				}
			}
		}
	}
	if _, err := os.Stat("calls.svg"); err != nil || ran < 5 {
		t.Errorf("%d commands, %v", ran, err)
	}
}
