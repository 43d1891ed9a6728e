package importertest

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/importer"
)

var update = flag.Bool("update", false, "write the golden files")

// Golden imports all files that match patterns, each by itself, and compares.
func Golden(t *testing.T, kind importer.Kind, patterns ...string) {
	t.Helper()
	for _, p := range patterns {
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

// golden imports files of a kind that is found out, and compares.
func golden(t *testing.T, want string, kind importer.Kind, files ...string) {
	t.Helper()
	var sources []importer.Source
	for _, f := range files {
		sources = append(sources, readSource(t, f))
	}
	res, err := importer.Import(sources, importer.Options{})
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
		if _, _, err := descriptor.Parse(app.Name, app.Source); err != nil {
			t.Errorf("the descriptor is not valid: %v", err)
		}
		if !strings.Contains(string(app.Source), kind.Title()) {
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
