package labcmd

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/cli"
)

func TestSim(t *testing.T) {
	var got Run
	s := &Sim{
		List: func() cli.Sheet { return rows{{"mu-lb", "sim"}} },
		Run: func(_ context.Context, _ io.Writer, r Run) (cli.Sheet, error, error) {
			got = r
			return rows{{"1", "2"}}, shortfall{}, nil
		},
		Place: func(_ context.Context, file string, schedulers []string, _ uint64) (cli.Sheet, error) {
			return rows{{file, strings.Join(schedulers, "+")}}, nil
		},
	}
	run := func(args ...string) (code int, out, problems string) {
		var o, e strings.Builder
		code = runMain(context.Background(), args, strings.NewReader(""), &o, &e,
			cli.Options{Getenv: func(string) string { return "" }}, nil, s)
		return code, o.String(), e.String()
	}
	if code, out, _ := run("sim", "list"); code != 0 || !strings.Contains(out, "mu-lb") {
		t.Errorf("list: %d, %q", code, out)
	}
	code, out, problems := run("sim", "run", "mu-lb", "--quick", "--seed", "7", "-o", "csv")
	if want := (Run{Names: []string{"mu-lb"}, Quick: true, Seed: 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if code != 1 || out != "A,B\n1,2\n" || !strings.Contains(problems, "falls short") {
		t.Errorf("run: %d, %q, %q", code, out, problems)
	}
	if code, out, _ := run("sim", "place", "sites.yaml", "--scheduler", "rom,spread", "-o", "csv"); code != 0 ||
		out != "A,B\nsites.yaml,rom+spread\n" {
		t.Errorf("place: %d, %q", code, out)
	}
	if code, _, problems := run("sim", "place"); code != 1 || !strings.Contains(problems, "the file is missing") {
		t.Errorf("place nothing: %d, %q", code, problems)
	}
	if code, _, problems := run("sim", "run"); code != 1 || !strings.Contains(problems, "verge sim list") {
		t.Errorf("nothing was run: %d, %q", code, problems)
	}
}
