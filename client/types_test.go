package client_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
)

// Programs outside this module can name every type that the client takes or returns: none is
// to be had from an internal package alone.
func TestEveryTypeHasAName(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.TypeSpec); ok {
			if x, ok := s.Type.(*ast.SelectorExpr); ok {
				named[x.Sel.Name] = true
			}
		}
		return true
	})
	seen := map[reflect.Type]bool{}
	var walk func(v reflect.Type)
	walk = func(v reflect.Type) {
		if seen[v] {
			return
		}
		seen[v] = true
		if strings.Contains(v.PkgPath(), "/internal/") && !named[v.Name()] {
			t.Errorf("%v has no name in package client", v)
		}
		switch v.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			walk(v.Elem())
		case reflect.Map:
			walk(v.Key())
			walk(v.Elem())
		case reflect.Struct:
			for _, field := range reflect.VisibleFields(v) {
				if field.IsExported() {
					walk(field.Type)
				}
			}
		case reflect.Func:
			for i := range v.NumIn() {
				walk(v.In(i))
			}
			for i := range v.NumOut() {
				walk(v.Out(i))
			}
		}
	}
	for _, group := range reflect.VisibleFields(reflect.TypeFor[client.Client]()) {
		if group.IsExported() {
			for i := range group.Type.NumMethod() {
				walk(group.Type.Method(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[client.WatchEvent]())
}
