package house

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// packageComments wants each package to say what it is, in one place.
func packageComments(files []*file) []finding {
	pkgs := map[string][]*file{}
	for _, f := range parsed(files) {
		if !f.isTest() {
			pkgs[f.pkg()] = append(pkgs[f.pkg()], f)
		}
	}
	var out []finding
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		first, said := pkgs[dir][0], 0
		for _, f := range pkgs[dir] {
			if f.ast.Doc == nil {
				continue
			}
			said++
			want := "Package " + f.ast.Name.Name + " "
			if text := f.ast.Doc.Text(); !f.isMain() && !strings.HasPrefix(text, want) {
				out = append(out, finding{f.path, f.line(f.ast), fmt.Sprintf("the package comment begins with %q", want)})
			}
		}
		switch {
		case said == 0:
			out = append(out, finding{first.path, 1, fmt.Sprintf("package %s has no package comment: say in doc.go what it is for and what it promises", dir)})
		case said > 1:
			out = append(out, finding{first.path, 1, fmt.Sprintf("package %s has %d package comments: keep one (a blank line before `package` makes the others ordinary ones)", dir, said)})
		}
	}
	return out
}

// exportedComments wants a doc comment on each exported name at the top level
// of a package that others can import, and on the methods of exported types.
func exportedComments(files []*file) []finding {
	var out []finding
	for _, f := range parsed(files) {
		if f.isTest() || f.isMain() {
			continue
		}
		missing := func(n ast.Node, kind, name string) {
			out = append(out, finding{f.path, f.line(n), fmt.Sprintf("exported %s %s has no doc comment: say what it promises (units, ranges, errors)", kind, name)})
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					missing(d, "function", d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if name := undocumented(d, spec); name != "" {
						missing(spec, d.Tok.String(), name)
					}
				}
			}
		}
	}
	return out
}

// exportedReceiver reports whether d is a function or the method of a type that
// others can name.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// undocumented is the exported name of a spec that has no comment, be it its
// own, at the end of its line, or that of its group.
func undocumented(d *ast.GenDecl, spec ast.Spec) string {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
			return s.Name.Name
		}
	case *ast.ValueSpec:
		if s.Doc != nil || s.Comment != nil || d.Doc != nil {
			return ""
		}
		for _, n := range s.Names {
			if n.IsExported() {
				return n.Name
			}
		}
	}
	return ""
}

func TestPackagesAreDocumented(t *testing.T)      { check(t, packageComments) }
func TestExportedNamesAreDocumented(t *testing.T) { check(t, exportedComments) }

func TestPackagesAreDocumentedFindsViolations(t *testing.T) {
	plant(t, packageComments, map[string]planted{
		"one":       {files: map[string]string{"a/doc.go": "// Package a is.\npackage a", "a/a.go": "package a"}},
		"command":   {files: map[string]string{"a/main.go": "// A program.\npackage main"}},
		"tests":     {files: map[string]string{"a/a_test.go": "package a"}},
		"none":      {map[string]string{"a/a.go": "package a"}, []string{"a/a.go:1 has no package comment"}},
		"two":       {map[string]string{"a/a.go": "// Package a is.\npackage a", "a/b.go": "// Package a was.\npackage a"}, []string{"a/a.go:1 2 package comments"}},
		"wrong":     {map[string]string{"a/a.go": "// Bla.\npackage a"}, []string{"a/a.go:2 begins with"}},
		"by a test": {map[string]string{"a/a.go": "package a", "a/a_test.go": "// Package a is.\npackage a"}, []string{"a/a.go:1 has no package comment"}},
	})
}

func TestExportedNamesAreDocumentedFindsViolations(t *testing.T) {
	one := func(src string) map[string]string { return map[string]string{"a/a.go": "package a\n" + src} }
	plant(t, exportedComments, map[string]planted{
		"documented": {files: one("// F does.\nfunc F() {}\n// T is.\ntype T int\n// M does.\nfunc (t *T) M() {}\n// Kinds.\nconst (\nA = 1\nB = 2\n)\nvar (\nX = 1 // is\n)")},
		"unexported": {files: one("func f() {}\ntype t int\nfunc (t) M() {}\nconst a = 1")},
		"main":       {files: map[string]string{"a/a.go": "package main\nfunc F() {}"}},
		"test":       {files: map[string]string{"a/a_test.go": "package a\nfunc TestF() {}"}},
		"function":   {one("func F() {}"), []string{"a/a.go:2 function F"}},
		"method":     {one("// T is.\ntype T[K any] int\nfunc (t *T[K]) M() {}"), []string{"a/a.go:4 function M"}},
		"type":       {one("type T int"), []string{"a/a.go:2 type T"}},
		"in a group": {one("// Types.\ntype (\nT int\n)"), []string{"a/a.go:4 type T"}},
		"const":      {one("const A = 1"), []string{"a/a.go:2 const A"}},
		"var":        {one("var (\na = 1\nA = 2\n)"), []string{"a/a.go:4 var A"}},
	})
}
