package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestEnumsAreTheConstants holds the words that the OpenAPI document lists for a field
// against the constants that the program uses.
func TestEnumsAreTheConstants(t *testing.T) {
	for _, c := range []struct {
		of    reflect.Type
		field string
		group string // its comment begins with this; "": the constants of the type State
	}{
		{reflect.TypeFor[Instance](), "State", ""},
		{reflect.TypeFor[Transition](), "To", ""},
		{reflect.TypeFor[InstancePlan](), "State", ""},
		{reflect.TypeFor[InstanceTop](), "State", ""},
		{reflect.TypeFor[ProfileReport](), "State", "States of profiling"},
		{reflect.TypeFor[ProfileNode](), "State", "States of profiling"},
		{reflect.TypeFor[UpgradeView](), "State", "States of an upgrade"},
		{reflect.TypeFor[JobView](), "Outcome", "Outcomes of a job"},
		{reflect.TypeFor[JobRun](), "Outcome", "Outcomes of a job"},
	} {
		f, ok := c.of.FieldByName(c.field)
		if !ok {
			t.Fatalf("%s has no field %s", c.of, c.field)
		}
		got := strings.Split(f.Tag.Get("enum"), ",")
		want := constants(t, c.group)
		slices.Sort(got)
		slices.Sort(want)
		if len(want) < 2 || !slices.Equal(got, want) {
			t.Errorf("%s.%s lists %q, the constants are %q", c.of, c.field, got, want)
		}
	}
}

// constants returns the strings of the group of constants whose comment begins with
// comment, or of those of the type State.
func constants(t *testing.T, comment string) (out []string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		f, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST || comment != "" && !strings.HasPrefix(group.Doc.Text(), comment) {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				if kind, _ := v.Type.(*ast.Ident); comment == "" && (kind == nil || kind.Name != "State") {
					continue
				}
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, text)
			}
		}
	}
	return out
}
