package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"testing"
)

// untyped are packages that may write an event by its fields, or a kind that is none.
var untyped = map[string]string{
	"internal/event": "it makes kinds and events",
	"internal/obs":   "the ring makes events of kinds that it is given",
	"internal/hooks": "a notice without a kind notes a position, and nobody receives it",
}

// typedEvents finds literals of events and kinds, the only way to an event without a kind.
func typedEvents(files []*file) (out []finding) {
	for _, f := range parsed(files) {
		names := map[string]bool{}
		for _, i := range f.imports() {
			names[i.name] = names[i.name] || i.own() == "internal/event"
		}
		if untyped[f.pkg()] != "" || f.isTest() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			of := lit.Type
			if list, ok := of.(*ast.ArrayType); ok && slices.ContainsFunc(lit.Elts, bare) {
				of = list.Elt
			}
			sel, ok := of.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] && (sel.Sel.Name == "Event" || sel.Sel.Name == "Kind") {
				out = append(out, finding{f.path, f.line(n), fmt.Sprintf("a literal of event.%s has no kind: "+
					"register one in internal/event/kinds.go and use its On, or Note of the ring", sel.Sel.Name)})
			}
			return true
		})
	}
	return out
}

// bare says whether an element of a list is a literal that leaves out its type.
func bare(x ast.Expr) bool {
	lit, ok := x.(*ast.CompositeLit)
	return ok && lit.Type == nil
}

func TestEventsAreTyped(t *testing.T) { check(t, typedEvents) }

func TestEventsAreTypedFindsViolations(t *testing.T) {
	const head = "package a\nimport \"" + module + "/internal/event\"\n"
	plant(t, typedEvents, map[string]planted{
		"a kind":       {files: map[string]string{"a/a.go": head + "var e = event.InstanceMoved.On(`x`, `y`)"}},
		"a list":       {files: map[string]string{"a/a.go": head + "var e = []event.Event{}"}},
		"another type": {files: map[string]string{"a/a.go": "package a\nimport `b/event`\nvar e = event.Event{}"}},
		"a test":       {files: map[string]string{"a/a_test.go": head + "var e = event.Event{Text: `x`}"}},
		"text only":    {map[string]string{"a/a.go": head + "var e = event.Event{Text: `x`}"}, []string{"a/a.go:3 event.Event has no kind"}},
		"in a list":    {map[string]string{"a/a.go": head + "var e = []event.Event{event.Event{}}"}, []string{"a/a.go:3 event.Event has no kind"}},
		"in short":     {map[string]string{"a/a.go": head + "var e = []event.Event{{Text: `x`}}"}, []string{"a/a.go:3 event.Event has no kind"}},
		"no kind":      {map[string]string{"a/a.go": head + "var k = event.Kind{}"}, []string{"a/a.go:3 event.Kind has no kind"}},
		"another name": {map[string]string{"a/a.go": "package a\nimport ev \"" + module + "/internal/event\"\nvar e = ev.Event{}"}, []string{"a/a.go:3 event.Event has no kind"}},
	})
}

const kindsFile = "internal/event/kinds.go"

// unusedKinds finds kinds of events that nothing adds.
func unusedKinds(files []*file) (out []finding) {
	used := map[string]bool{}
	for _, f := range parsed(files) {
		if f.isTest() || f.path == kindsFile {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "event" {
					used[n.Sel.Name] = true
				}
			case *ast.Ident: // in its own package it goes without
				used[n.Name] = used[n.Name] || f.pkg() == path.Dir(kindsFile)
			}
			return true
		})
	}
	for _, f := range parsed(files) {
		if f.path != kindsFile {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
				return true
			}
			call, ok := spec.Values[0].(*ast.CallExpr)
			if !ok {
				return true
			}
			if fun, ok := call.Fun.(*ast.Ident); ok && fun.Name == "register" && !used[spec.Names[0].Name] {
				out = append(out, finding{f.path, f.line(spec), fmt.Sprintf("nothing adds an event of the kind %s: "+
					"add one, or take the kind out", spec.Names[0].Name)})
			}
			return true
		})
	}
	return out
}

func TestEveryKindOfEventIsUsed(t *testing.T) { check(t, unusedKinds) }

func TestEveryKindOfEventIsUsedFindsViolations(t *testing.T) {
	const kinds = "package event\nvar Moved = register(`moved`)"
	plant(t, unusedKinds, map[string]planted{
		"used":         {files: map[string]string{kindsFile: kinds, "a/a.go": "package a\nvar e = event.Moved"}},
		"unused":       {map[string]string{kindsFile: kinds, "a/a.go": "package a"}, []string{kindsFile + ":2 nothing adds"}},
		"of its name":  {map[string]string{kindsFile: kinds, "a/a.go": "package a\nvar Moved = b.Moved"}, []string{kindsFile + ":2 nothing adds"}},
		"used by test": {map[string]string{kindsFile: kinds, "a/a_test.go": "package a\nvar e = event.Moved"}, []string{kindsFile + ":2 nothing adds"}},
	})
}
