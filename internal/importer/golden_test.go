package importer

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden imports each example, and each case of our own, and compares notes and
// descriptors.
func TestGolden(t *testing.T) {
	for kind, pattern := range map[Kind][]string{
		Compose:    {"testdata/compose/*/compose.yaml", "testdata/cases/compose-*.yaml", "testdata/projects/*/compose.yaml"},
		Oakestra:   {"testdata/oakestra/*.json", "testdata/cases/oakestra-*.json"},
		Kubernetes: {"testdata/kubernetes/*.yaml", "testdata/cases/kubernetes-*.yaml"},
	} {
		for _, p := range pattern {
			files, err := filepath.Glob(p)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %v, %v", p, files, err)
			}
			for _, file := range files {
				t.Run(filepath.ToSlash(file), func(t *testing.T) {
					t.Parallel()
					golden(t, file+".golden", kind, file)
				})
			}
		}
	}
}

// golden imports files of a kind that is found out, and compares.
func golden(t *testing.T, want string, kind Kind, files ...string) {
	t.Helper()
	var sources []Source
	for _, f := range files {
		sources = append(sources, source(t, f))
	}
	res, err := Import(sources, Options{})
	var out bytes.Buffer
	for _, n := range res.Notes {
		fmt.Fprintf(&out, "# %s: %s\n", n.Level, n)
	}
	if err != nil {
		fmt.Fprintf(&out, "# %v\n", err)
	}
	if (err != nil) != (len(res.Apps) == 0) {
		t.Errorf("%d applications with the error %v", len(res.Apps), err)
	}
	for _, app := range res.Apps {
		fmt.Fprintf(&out, "---\n%s", app.Source)
		if _, _, err := api.Parse(app.Name, app.Source); err != nil {
			t.Errorf("the descriptor is not valid: %v", err)
		}
		if !strings.Contains(string(app.Source), kind.title()) {
			t.Errorf("it was taken for something else than %s", kind)
		}
	}
	if *update {
		if err := os.WriteFile(want, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, out.Bytes()) {
		t.Errorf("%s differs; with -update it would be\n%s", want, out.String())
	}
}

// source reads a file as verge import does.
func source(t *testing.T, file string) Source {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(file)
	return Source{Name: filepath.ToSlash(file), Data: data, Folder: filepath.Base(dir), Open: func(path string) ([]byte, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		return root.ReadFile(path)
	}}
}

// of imports one text.
func of(text string, o Options) (*Result, error) {
	return Import([]Source{{Name: "in.yaml", Data: []byte(text), Folder: "shop"}}, o)
}

// says demands a note with a text in it, at a line.
func says(t *testing.T, res *Result, level Level, line int, text string) {
	t.Helper()
	for _, n := range res.Notes {
		if n.Level == level && n.Line == line && strings.Contains(n.String(), text) {
			return
		}
	}
	t.Errorf("no %s with %q in line %d; there are %v", level, text, line, res.Notes)
}

// refused demands that nothing was made, with a note.
func refused(t *testing.T, text string, line int, why string) {
	t.Helper()
	res, err := of(text, Options{})
	if !errors.Is(err, ErrRefused) || len(res.Apps) > 0 {
		t.Errorf("it was not refused: %v, %v", err, res.Apps)
	}
	says(t, res, Refused, line, why)
}
