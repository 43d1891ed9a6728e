package labcmd

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cli"
)

// runLab runs a command line with a test bed.
func runLab(l *Lab, args ...string) (code int, out, problems string) {
	var o, e bytes.Buffer
	code = runMain(context.Background(), args, strings.NewReader(""), &o, &e,
		cli.Options{Getenv: func(string) string { return "" }}, l, nil)
	return code, o.String(), e.String()
}

func TestLabElsewhere(t *testing.T) {
	for _, args := range [][]string{{"up", "f"}, {"down"}, {"status"}, {"shell", "h"}, {"link", "cut", "a", "b"},
		{"list"}, {"run", "x"}, {"report"}} {
		if code, _, problems := runLab(nil, args...); code != 1 || !strings.Contains(problems, "needs Linux") {
			t.Errorf("%v: %d, %s", args, code, problems)
		}
	}
}

func TestLink(t *testing.T) {
	var got Link
	l := &Lab{Set: func(_ context.Context, name string, c Link) (string, error) {
		if name != "two" {
			t.Errorf("lab %q", name)
		}
		got = c
		return "as set", nil
	}}
	latency, zero, rate, buffer, loss, yes := 30*time.Millisecond, time.Duration(0), int64(10e6), int64(64<<10), 0.2,
		true
	for line, want := range map[string]Link{
		"set a b --latency 30ms --loss 20%":        {A: "a", B: "b", Latency: &latency, Loss: &loss},
		"set a b --loss 0.2 --rtt 0s --one-way":    {A: "a", B: "b", Loss: &loss, RTT: &zero, OneWay: true},
		"set a b --rate 10Mbps --buffer 64Ki":      {A: "a", B: "b", Rate: &rate, Buffer: &buffer},
		"set a b --rate 0 --jitter 30ms --reorder": {A: "a", B: "b", Rate: new(int64), Jitter: &latency, Reorder: &yes},
		"cut a b --one-way":                        {A: "a", B: "b", Cut: &yes, OneWay: true},
		"heal a b":                                 {A: "a", B: "b", Cut: new(bool)},
	} {
		got = Link{}
		code, out, problems := runLab(l, append([]string{"link"}, strings.Fields(line+" --lab two")...)...)
		if code != 0 || !strings.Contains(out, "as set") || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d, %+v, %s%s", line, code, got, out, problems)
		}
	}
	for line, want := range map[string]string{
		"set a": "two hosts", "set a b --loss 2": "20%", "set a b --loss x": "20%", "set a b --rate fast": "--rate",
		"set a b --buffer x": "--buffer",
	} {
		if code, _, problems := runLab(l,
			append([]string{"link"}, strings.Fields(line+" --lab two")...)...); code != 1 ||
			!strings.Contains(problems, want) {
			t.Errorf("%s: %d, %s", line, code, problems)
		}
	}
}

func TestLabShell(t *testing.T) {
	var got []string
	l := &Lab{Shell: func(_ context.Context, _, host string, command []string) error {
		got = append([]string{host}, command...)
		return nil
	}}
	for line, want := range map[string]string{"h": "h /bin/sh", "h -- ls -l": "h ls -l"} {
		if code, _, problems := runLab(l, append([]string{"shell"}, strings.Fields(line)...)...); code != 0 ||
			strings.Join(got, " ") != want {
			t.Errorf("%s: %d, %q, %s", line, code, got, problems)
		}
	}
	if code, _, _ := runLab(l, "shell", "--", "ls"); code != 1 {
		t.Error("a shell without a host")
	}
}

// rows is a sheet.
type rows [][]string

func (r rows) Table() ([]string, [][]string) { return []string{"A", "B"}, r }

type shortfall struct{}

func (shortfall) Error() string { return "a requirement falls short" }

// The rows are shown also where a requirement is not met; that is exit code 1.
func TestRun(t *testing.T) {
	var got Run
	l := &Lab{Run: func(_ context.Context, _ io.Writer, r Run) (cli.Sheet, error, error) {
		got = r
		return rows{{"1", "2,3"}}, shortfall{}, nil
	}}
	code, out, problems := runLab(l, "run", "x", "y", "--quick", "--seed", "7", "-o", "csv", "--dir", "d")
	if want := (Run{Names: []string{"x", "y"}, Quick: true, Seed: 7, Dir: "d"}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if code != 1 || out != "A,B\n1,\"2,3\"\n" || !strings.Contains(problems, "falls short") {
		t.Errorf("%d, %q, %q", code, out, problems)
	}
	if code, out, _ := runLab(l, "run", "x", "-o", "json"); code != 1 || !strings.HasPrefix(out, "[\n") {
		t.Errorf("%d, %q", code, out)
	}
	if code, _, _ := runLab(l, "run"); code != 1 {
		t.Error("nothing was run, and that was no error")
	}
}
