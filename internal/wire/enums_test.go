package wire_test

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

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// described are the folders whose types are in kinds.
var described = []string{".", "rpc", "../apiv1", "../engineapi", "../record"}

// sources are their files, without tests.
func sources(t *testing.T) (out []string) {
	t.Helper()
	for _, dir := range described {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				out = append(out, f)
			}
		}
	}
	return out
}

// TestEnumsAreTheConstants holds the words that the OpenAPI document lists for a field
// against the constants that the program uses.
func TestEnumsAreTheConstants(t *testing.T) {
	for _, c := range []struct {
		of    reflect.Type
		field string
		group string // its comment begins with this; "": the constants of the type State
	}{
		{reflect.TypeFor[wire.Instance](), "State", ""},
		{reflect.TypeFor[wire.Transition](), "To", ""},
		{reflect.TypeFor[wire.Instance](), "Cause", "Causes of steps"},
		{reflect.TypeFor[wire.Transition](), "Cause", "Causes of steps"},
		{reflect.TypeFor[rpc.InstancePlan](), "State", ""},
		{reflect.TypeFor[rpc.InstanceTop](), "State", ""},
		{reflect.TypeFor[rpc.ProfileReport](), "State", "States of profiling"},
		{reflect.TypeFor[rpc.ProfileNode](), "State", "States of profiling"},
		{reflect.TypeFor[apiv1.UpgradeView](), "State", "States of an upgrade"},
		{reflect.TypeFor[apiv1.JobView](), "Outcome", "Outcomes of a job"},
		{reflect.TypeFor[wire.JobRun](), "Outcome", "Outcomes of a job"},
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
	for _, source := range sources(t) {
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
