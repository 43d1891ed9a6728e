package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/verge-edge/verge"

// file is a Go file of the module.
type file struct {
	path string // from the root of the module, with slashes
	src  string
	fset *token.FileSet
	ast  *ast.File // nil where it does not parse: the compiler says so better
}

func (f *file) pkg() string         { return path.Dir(f.path) }
func (f *file) isTest() bool        { return strings.HasSuffix(f.path, "_test.go") }
func (f *file) isMain() bool        { return f.ast.Name.Name == "main" }
func (f *file) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

// imports of the file: path by import spec, in order.
func (f *file) imports() []imported {
	var out []imported
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		i := imported{path: p, line: f.line(spec), name: path.Base(p)}
		if v := path.Base(p); len(v) > 1 && v[0] == 'v' && strings.Trim(v[1:], "0123456789") == "" {
			i.name = path.Base(path.Dir(p)) // math/rand/v2 is rand
		}
		if spec.Name != nil {
			i.name = spec.Name.Name
		}
		out = append(out, i)
	}
	return out
}

type imported struct {
	path, name string
	line       int
}

// own is the path within the module, "" if it is another's.
func (i imported) own() string {
	p, ok := strings.CutPrefix(i.path, module+"/")
	if !ok {
		return ""
	}
	return p
}

func (i imported) std() bool {
	first, _, _ := strings.Cut(i.path, "/")
	return !strings.Contains(first, ".")
}

// finding is a violation of a rule: where, what, and what to do.
type finding struct {
	path string
	line int
	what string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.what) }

func parse(name, src string) *file {
	f := &file{path: name, src: src, fset: token.NewFileSet()}
	if tree, err := parser.ParseFile(f.fset, name, src, parser.ParseComments|parser.SkipObjectResolution); err == nil {
		f.ast = tree
	}
	return f
}

// parsed leaves out the files that do not parse.
func parsed(files []*file) []*file {
	return slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return f.ast == nil })
}

// tree reads all Go files of the module, once for all tests.
var tree = sync.OnceValues(func() ([]*file, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	var files []*file
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, p, rel, d.Name())
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(p, ".go") {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files = append(files, parse(filepath.ToSlash(rel), string(src)))
		return nil
	})
	return files, err
})

// skipDir leaves out what the go tool leaves out, and modules within the module.
func skipDir(root, p, rel, name string) error {
	if rel == "." {
		return nil
	}
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || slices.Contains([]string{"testdata", "vendor", "node_modules"}, name) {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil && p != root {
		return filepath.SkipDir
	}
	return nil
}

// moduleRoot is the folder with go.mod above the test's working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
		dir = up
	}
}

// check fails the test with every finding of a rule.
func check(t *testing.T, rule func([]*file) []finding) {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found: the module was not read", len(files))
	}
	for _, f := range rule(files) {
		t.Error(f)
	}
}

// planted is a case of a rule: sources by path, and the findings expected, each
// as "path:line" and a part of its words.
type planted struct {
	files map[string]string
	want  []string
}

func plant(t *testing.T, rule func([]*file) []finding, cases map[string]planted) {
	t.Helper()
	for name, c := range cases {
		var files []*file
		for p, src := range c.files {
			f := parse(p, src)
			if f.ast == nil {
				t.Fatalf("%s: %s does not parse", name, p)
			}
			files = append(files, f)
		}
		slices.SortFunc(files, func(a, b *file) int { return strings.Compare(a.path, b.path) })
		got := rule(files)
		if len(got) != len(c.want) {
			t.Errorf("%s: found %v, want %q", name, got, c.want)
			continue
		}
		for i, g := range got {
			at, words, _ := strings.Cut(c.want[i], " ")
			if !strings.HasPrefix(g.String(), at+": ") || !strings.Contains(g.what, words) {
				t.Errorf("%s: found %q, want %q", name, g, c.want[i])
			}
		}
	}
}
