package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program verge-NAME in the PATH is a command, and gets all that follows as it is; no program
// takes the place of a command, and one that is missing is said to be, with where it was sought.
func TestExtension(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"verge-lab", "verge-weather", "verge-get", "verge-help", "verge-completion"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	failed := errors.New("exec format error")
	run := func(line string, fails error) (code int, problems string) {
		got = nil
		var out, e bytes.Buffer
		code = Main(t.Context(), strings.Fields(line), strings.NewReader(""), &out, &e, Options{
			Getenv: func(string) string { return "" },
			Exec: func(program string, args, env []string) error {
				if !slices.Contains(env, StartedBy+"="+self) {
					t.Errorf("%s: %s is not in its environment", line, StartedBy)
				}
				got = append([]string{filepath.Base(program)}, args...)
				return fails
			},
		})
		return code, e.String()
	}
	t.Setenv("PATH", dir)
	for line, want := range map[string]string{
		"lab up file --quick -o json":  "verge-lab up file --quick -o json",
		"lab":                          "verge-lab",
		"lab --help":                   "verge-lab --help",
		"sim run x --seed 3 -- --what": "verge-lab sim run x --seed 3 -- --what",
		"weather --tomorrow -x y":      "verge-weather --tomorrow -x y",
		"get --help":                   "",
		"help":                         "",
		"completion bash":              "",
	} {
		if code, problems := run(line, nil); code != 0 || strings.Join(got, " ") != want {
			t.Errorf("%s: %d, %q, want %q\n%s", line, code, got, want, problems)
		}
	}
	if code, problems := run("weather", failed); code != 1 || !strings.Contains(problems, "exec format error") {
		t.Errorf("a program that does not start: %d, %s", code, problems)
	}
	for _, line := range []string{"../lab", "-lab", "climate"} {
		if code, _ := run(line, nil); code != 1 || got != nil {
			t.Errorf("%s: %d, %q", line, code, got)
		}
	}
	t.Setenv("PATH", t.TempDir())
	code, problems := run("lab up f", nil)
	for _, want := range []string{"verge-lab is neither " + filepath.Join(filepath.Dir(self), "verge-lab"),
		"nor in the PATH", "make build"} {
		if code != 1 || !strings.Contains(problems, want) {
			t.Errorf("a program that is missing: %d, without %q: %s", code, want, problems)
		}
	}
}

// verge --help lists the lab, although it is another program.
func TestHelpListsExtensions(t *testing.T) {
	var out, e bytes.Buffer
	if code := Main(t.Context(), []string{"--help"}, nil, &out, &e, Options{}); code != 0 ||
		!strings.Contains(out.String(), "\n  lab ") || !strings.Contains(out.String(), "\n  sim ") {
		t.Errorf("%d, %s%s", code, out.String(), e.String())
	}
}
