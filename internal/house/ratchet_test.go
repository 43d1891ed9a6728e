package house

import (
	"bufio"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// A measure is a number that each package keeps below a limit. Packages that are above it are
// listed in testdata/ratchet.txt with what they have; no number there ever rises, and
//
//	go test ./internal/house -run TestRatchet -lower
//
// lowers those that have fallen, and takes out those that are within their limit.
type measure struct {
	name  string
	limit int
	say   string // what to do about a package that is above
	of    func(pkg []*file) int
}

var measures = []measure{
	{"lines", 2500, "take as many lines out of it, or move a subject into a package below it, along what belongs together", lines},
	{"knot", 10, "turn a reference round, so that fewer files all reach each other", knot},
	{"fields", 30, "group the fields of its largest struct by who uses them", largestStruct},
	{"methods", 12, "part its largest interface by who calls it", largestInterface},
	{"columns", 0, "break its lines of more than 140 columns", longLines},
	{"reasons", 0, "branch on a value, and leave text to people", comparedReasons},
	{"locked", 0, "let the owner of the lock offer a function that takes it", lockedNames},
	{"words", 0, "use the field's word for its exported names", ownWords},
}

// exempt are packages that a measure leaves out, with the reason.
var exempt = map[string]string{
	"fields api":         "a Service has a field for each key of the descriptor",
	"lines internal/cli": "a command is a file, and new ones need room",
	"knot internal/cli":  "what all commands share names the commands, and they use it",
}

func (f *file) generated() bool {
	return strings.HasPrefix(f.src, "// Code generated") || ast.IsGenerated(f.ast)
}

// lines are those of a package without doc.go, which says why it is as large as it is, and without
// imports: what is used must be free to become several packages.
func lines(pkg []*file) (n int) {
	for _, f := range pkg {
		if path.Base(f.path) == "doc.go" {
			continue
		}
		n += strings.Count(f.src, "\n")
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
				n -= f.line(endOf{g}) - f.line(g) + 1
			}
		}
	}
	return n
}

// endOf stands at the end of a node.
type endOf struct{ ast.Node }

// Pos is where the node ends.
func (e endOf) Pos() token.Pos { return e.End() }

// longLines leaves out the tag of a field, which cannot be broken.
func longLines(pkg []*file) (n int) {
	for _, f := range pkg {
		for line := range strings.SplitSeq(f.src, "\n") {
			if field, _, tagged := strings.Cut(line, "`json:"); tagged && strings.HasSuffix(line, "`") {
				line = field
			}
			if len([]rune(strings.ReplaceAll(line, "\t", "    "))) > 140 {
				n++
			}
		}
	}
	return n
}

func largestStruct(pkg []*file) (most int) {
	inspect(pkg, func(n ast.Node) {
		if s, ok := n.(*ast.StructType); ok {
			most = max(most, s.Fields.NumFields())
		}
	})
	return most
}

func largestInterface(pkg []*file) (most int) {
	inspect(pkg, func(n ast.Node) {
		if i, ok := n.(*ast.InterfaceType); ok {
			most = max(most, i.Methods.NumFields())
		}
	})
	return most
}

func inspect(pkg []*file, visit func(ast.Node)) {
	for _, f := range pkg {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

// reasonFields are the fields with text for people.
var reasonFields = []string{"Reason", "Why", "Message", "Detail"}

func isReason(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && slices.Contains(reasonFields, s.Sel.Name)
}

// comparedReasons counts where the text of a reason decides something.
func comparedReasons(pkg []*file) (n int) {
	inspect(pkg, func(node ast.Node) {
		switch x := node.(type) {
		case *ast.BinaryExpr:
			compares := x.Op == token.EQL || x.Op == token.NEQ
			if compares && (isReason(x.X) && saysSomething(x.Y) || isReason(x.Y) && saysSomething(x.X)) {
				n++
			}
		case *ast.CallExpr:
			f, ok := x.Fun.(*ast.SelectorExpr)
			if !ok || len(x.Args) < 2 || !isReason(x.Args[0]) {
				return
			}
			if of, ok := f.X.(*ast.Ident); ok && of.Name == "strings" && slices.Contains([]string{"HasPrefix", "HasSuffix", "Contains", "EqualFold", "CutPrefix"}, f.Sel.Name) {
				n++
			}
		}
	})
	return n
}

// saysSomething: a literal that is not empty. A comparison of two records is none with a text.
func saysSomething(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING && l.Value != `""`
}

// lockedNames counts functions whose callers must hold a lock, as their names say.
func lockedNames(pkg []*file) (n int) {
	for _, f := range pkg {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(fn.Name.Name, "Locked") {
				n++
			}
		}
	}
	return n
}

// dialect are words that no other system of this field uses for these things.
var dialect = []string{
	"Shelf", "Herald", "Desk", "Hands", "Kit", "Hurry", "Overtake", "Patience", "Insist", "Furnish", "Ground", "Picture", "Stock",
	"Mend", "Blot", "Given", "Locals", "Aims", "Shot", "Counsel", "Consultant", "Lens", "Sieve", "Spot", "Heed", "Heeds", "Strays",
	"Kept", "Unkept", "Lambda", "Operating", "Using", "Looking", "Ruling", "Turns", "Tally", "Door",
}

// ownWords counts exported names that have one of these. Deprecated ones keep their old name.
func ownWords(pkg []*file) (n int) {
	count := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		deprecated := slices.ContainsFunc(docs, func(g *ast.CommentGroup) bool {
			return strings.Contains("\n"+g.Text(), "\nDeprecated: ")
		})
		if id.IsExported() && !deprecated && slices.ContainsFunc(camel(id.Name), func(w string) bool { return slices.Contains(dialect, w) }) {
			n++
		}
	}
	for _, f := range pkg {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if exportedReceiver(d) {
					count(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						count(s.Name, d.Doc, s.Doc)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							count(id, d.Doc, s.Doc)
						}
					}
				}
			}
		}
	}
	return n
}

// camel are the words of a name.
func camel(name string) (words []string) {
	start := 0
	for i, r := range name {
		if i > start && unicode.IsUpper(r) {
			words, start = append(words, name[start:i]), i
		}
	}
	return append(words, name[start:])
}

// knot is the largest number of files of a package that all reach each other.
func knot(pkg []*file) int {
	names, methods, fields := map[string]string{}, map[string]string{}, map[string]bool{} // declared where
	declare := func(in map[string]string, name, where string) {
		if _, twice := in[name]; twice {
			where = "" // which is meant cannot be told without types
		}
		in[name] = where
	}
	for _, f := range pkg {
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					declare(methods, d.Name.Name, f.path)
				} else {
					declare(names, d.Name.Name, f.path)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						declare(names, s.Name.Name, f.path)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							declare(names, id.Name, f.path)
						}
					}
				}
			}
		}
	}
	inspect(pkg, func(n ast.Node) {
		if s, ok := n.(*ast.StructType); ok {
			for _, fl := range s.Fields.List {
				for _, id := range fl.Names {
					fields[id.Name] = true
				}
			}
		}
	})
	arrows := map[string][]string{}
	for _, f := range pkg {
		to := map[string]bool{}
		// With objects resolved, what stays unresolved in a file is declared elsewhere.
		if tree, err := parser.ParseFile(token.NewFileSet(), f.path, f.src, 0); err == nil {
			for _, id := range tree.Unresolved {
				to[names[id.Name]] = true
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && !fields[s.Sel.Name] {
				to[methods[s.Sel.Name]] = true
			}
			return true
		})
		delete(to, "")
		delete(to, f.path)
		arrows[f.path] = slices.Sorted(maps.Keys(to))
	}
	return largestCircle(arrows)
}

// largestCircle is the size of the largest strongly connected component (Tarjan); 0 if no node
// reaches another that reaches it.
func largestCircle(arrows map[string][]string) (largest int) {
	index, low, on := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	var visit func(v string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v] = index[v]
		stack, on[v] = append(stack, v), true
		for _, w := range arrows[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if on[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		size := 0
		for w := ""; w != v; size++ {
			w, stack = stack[len(stack)-1], stack[:len(stack)-1]
			on[w] = false
		}
		if size > 1 {
			largest = max(largest, size)
		}
	}
	for _, v := range slices.Sorted(maps.Keys(arrows)) {
		if index[v] == 0 {
			visit(v)
		}
	}
	return largest
}

// measured is what each package has, above its limits: by "measure package".
func measured(files []*file) map[string]int {
	pkgs := map[string][]*file{}
	for _, f := range parsed(files) {
		if !f.isTest() && !f.generated() {
			pkgs[f.pkg()] = append(pkgs[f.pkg()], f)
		}
	}
	out := map[string]int{}
	for dir, pkg := range pkgs {
		for _, m := range measures {
			if exempt[m.name+" "+dir] != "" {
				continue
			}
			if n := m.of(pkg); n > m.limit {
				out[m.name+" "+dir] = n
			}
		}
	}
	return out
}

// above are the findings of what is measured beside what is allowed.
func above(got, allowed map[string]int) (out []finding) {
	for _, key := range slices.Sorted(maps.Keys(got)) {
		name, dir, _ := strings.Cut(key, " ")
		m := measures[slices.IndexFunc(measures, func(m measure) bool { return m.name == name })]
		if limit := max(m.limit, allowed[key]); got[key] > limit {
			out = append(out, finding{dir, 0, fmt.Sprintf("%s: %d, at most %d: %s", name, got[key], limit, m.say)})
		}
	}
	return out
}

const ratchetFile = "testdata/ratchet.txt"

var lower = flag.Bool("lower", false, "lower the numbers of "+ratchetFile+" to what is measured")

func readRatchet(t *testing.T) map[string]int {
	t.Helper()
	f, err := os.Open(filepath.FromSlash(ratchetFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]int{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") || s.Text() == "" {
			continue
		}
		i := strings.LastIndexByte(s.Text(), ' ')
		n, err := strconv.Atoi(s.Text()[i+1:])
		if err != nil {
			t.Fatalf("%s: %v", s.Text(), err)
		}
		out[s.Text()[:i]] = n
	}
	return out
}

// No package gets larger, or more entangled, than the limits or than it is.
func TestRatchet(t *testing.T) {
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	got, allowed := measured(files), readRatchet(t)
	for _, f := range above(got, allowed) {
		t.Errorf("%s: %s", f.path, f.what)
	}
	slack := 0
	for key, n := range allowed {
		switch have, is := got[key]; {
		case !is:
			slack++
			delete(allowed, key)
		case have < n:
			slack++
			allowed[key] = have
		}
	}
	if !*lower {
		if slack > 0 {
			t.Logf("%d numbers of %s can be lowered: -lower does", slack, ratchetFile)
		}
		return
	}
	var b strings.Builder
	b.WriteString("# What packages have above the limits of ratchet_test.go. No number rises; -lower lowers them.\n")
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		fmt.Fprintf(&b, "%s %d\n", key, allowed[key])
	}
	if err := os.WriteFile(filepath.FromSlash(ratchetFile), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRatchetFindsViolations(t *testing.T) {
	for name, tc := range map[string]struct {
		files   map[string]string
		allowed map[string]int
		want    string // "" for none
	}{
		"small":     {map[string]string{"a/a.go": "package a\n"}, nil, ""},
		"lines":     {map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", 2500)}, nil, "lines: 2501, at most 2500"},
		"imports":   {map[string]string{"a/a.go": "package a\nimport (\n_ \"b\"\n)\nimport _ \"c\"\n" + strings.Repeat("\n", 2499)}, nil, ""},
		"tests":     {map[string]string{"a/a_test.go": "package a\n" + strings.Repeat("\n", 2500)}, nil, ""},
		"as it was": {map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", 2500)}, map[string]int{"lines a": 2501}, ""},
		"grown":     {map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", 2501)}, map[string]int{"lines a": 2501}, "lines: 2502, at most 2501"},
		"fields":    {map[string]string{"a/a.go": "package a\ntype t struct{ _" + strings.Repeat(", _", 30) + " int }"}, nil, "fields: 31"},
		"methods":   {map[string]string{"a/a.go": "package a\ntype i interface{ A(); B(); C(); D(); E(); F(); G(); H(); I(); J(); K(); L(); M() }"}, nil, "methods: 13"},
		"columns":   {map[string]string{"a/a.go": "package a // " + strings.Repeat("x", 140)}, nil, "columns: 1"},
		"a tag":     {map[string]string{"a/a.go": "package a\ntype t struct {\n\tA int `json:\"a\" doc:\"" + strings.Repeat("x", 140) + "\"`\n}"}, nil, ""},
		"reason":    {map[string]string{"a/a.go": "package a\nvar x = i.Reason == \"completed\""}, nil, "reasons: 1"},
		"prefix":    {map[string]string{"a/a.go": "package a\nvar x = strings.HasPrefix(i.Why, by)"}, nil, "reasons: 1"},
		"no reason": {map[string]string{"a/a.go": "package a\nvar x, y = i.Reason == \"\", i.Reason != j.Reason"}, nil, ""},
		"locked":    {map[string]string{"a/a.go": "package a\nfunc getLocked() {}"}, nil, "locked: 1"},
		"words":     {map[string]string{"a/a.go": "package a\ntype ObjectShelf int\ntype shelf int\ntype Shelfish int"}, nil, "words: 1"},
		"deprecated": {map[string]string{"a/a.go": "package a\n// Shelf was it.\n//\n// Deprecated: use Store.\ntype Shelf = Store"},
			nil, ""},
		"knot":        {ring(11), nil, "knot: 11"},
		"small knot":  {ring(10), nil, ""},
		"through one": {map[string]string{"a/a.go": "package a\nfunc a() { b() }", "a/b.go": "package a\nfunc b() {}"}, nil, ""},
	} {
		var files []*file
		for p, src := range tc.files {
			files = append(files, parse(p, src))
		}
		got := above(measured(files), tc.allowed)
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.Contains(got[0].what, tc.want)) {
			t.Errorf("%s: %v, want %q", name, got, tc.want)
		}
	}
}

// ring is a package of n files of which each calls the next, every second one by a method.
func ring(n int) map[string]string {
	out := map[string]string{"a/types.go": "package a\ntype t int"}
	for i := range n {
		next := (i + 1) % n
		call := fmt.Sprintf("f%d()", next)
		if next%2 == 1 {
			call = fmt.Sprintf("var x t; x.f%d()", next)
		}
		decl := fmt.Sprintf("func f%d()", i)
		if i%2 == 1 {
			decl = fmt.Sprintf("func (t) f%d()", i)
		}
		out[fmt.Sprintf("a/f%d.go", i)] = fmt.Sprintf("package a\n%s { %s }", decl, call)
	}
	return out
}
