package house

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goFile matches the name of a Go file, with or without folders before it.
var goFile = regexp.MustCompile(`[\w./-]*\b\w+\.go\b`)

// notFiles look like Go files and are libraries.
var notFiles = []string{"nats.go"}

// missingFiles returns the Go files that text names and that do not exist. A plain
// name is a file of the folder dir; a path starts there or at the root of the module.
func missingFiles(text, dir string, exists func(path string) bool) []string {
	var out []string
	for _, name := range goFile.FindAllString(text, -1) {
		if slices.Contains(notFiles, path.Base(name)) || exists(path.Join(dir, name)) {
			continue
		}
		if strings.Contains(name, "/") && exists(path.Clean(name)) {
			continue
		}
		out = append(out, name)
	}
	return out
}

func missing(name string) string {
	return fmt.Sprintf("%s is no file of this folder or of the module: name the file that has it now", name)
}

// namedFiles wants each Go file that a comment names to exist.
func namedFiles(files []*file) []finding {
	known := map[string]bool{}
	for _, f := range files {
		known[f.path] = true
	}
	var out []finding
	for _, f := range parsed(files) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				for i, line := range strings.Split(c.Text, "\n") {
					for _, name := range missingFiles(line, f.pkg(), func(p string) bool { return known[p] }) {
						out = append(out, finding{f.path, f.line(c) + i, missing(name)})
					}
				}
			}
		}
	}
	return out
}

// pageFiles wants each Go file that a page names to exist. Pages for users also name
// files that Verge writes for them, so there only paths count.
func pageFiles(page, text string, exists func(path string) bool) []finding {
	var out []finding
	for i, line := range strings.Split(text, "\n") {
		for _, name := range missingFiles(line, path.Dir(page), exists) {
			if path.Base(page) == "DESIGN.md" || strings.Contains(name, "/") {
				out = append(out, finding{page, i + 1, missing(name)})
			}
		}
	}
	return out
}

func TestNamedFilesExist(t *testing.T) { check(t, namedFiles) }

func TestPagesNameFilesThatExist(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	ps, err := readPages(root)
	if err != nil {
		t.Fatal(err)
	}
	for page, text := range ps {
		for _, f := range pageFiles(page, text, func(p string) bool {
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(p)))
			return err == nil
		}) {
			t.Error(f)
		}
	}
	if len(ps) < 10 {
		t.Errorf("only %d pages found", len(ps))
	}
}

func TestNamedFilesExistFindsViolations(t *testing.T) {
	plant(t, namedFiles, map[string]planted{
		"beside":   {files: map[string]string{"a/a.go": "package a // see b.go", "a/b.go": "package a"}},
		"a path":   {files: map[string]string{"a/a.go": "package a // see b/b.go and a/a.go", "b/b.go": "package b"}},
		"library":  {files: map[string]string{"a/a.go": "package a // nats.go is a client"}},
		"gone":     {map[string]string{"a/a.go": "package a\n\n/* see\nb.go */"}, []string{"a/a.go:4 b.go"}},
		"not here": {map[string]string{"a/a.go": "package a // see b.go", "b/b.go": "package b"}, []string{"a/a.go:1 b.go"}},
	})
	exists := func(p string) bool { return p == "a/a.go" }
	for page, c := range map[string]struct {
		text string
		want int
	}{
		"a/DESIGN.md": {"`a.go`\n`b.go`", 1},
		"README.md":   {"main.go is written for you; a/a.go has it, a/b.go has not", 1},
		"a/README.md": {"a.go, ../a/a.go", 0},
	} {
		if got := pageFiles(page, c.text, exists); len(got) != c.want {
			t.Errorf("%s: %v, want %d", page, got, c.want)
		}
	}
}
