package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tiers talk to each other by messages alone: what two of them must agree on is in package wire.
var tiers = []string{"internal/root", "internal/cluster", "internal/agent", "internal/engine"}

// unrelated are texts that constants of two tiers have by chance, or by habit: neither reads what
// the other writes.
var unrelated = map[string]string{
	"gone.":     ownKeys,
	"inst.":     ownKeys,
	"lease.":    ownKeys,
	"publish.":  ownKeys,
	"revoked.":  ownKeys,
	"route.":    ownKeys,
	"seal.":     ownKeys,
	"secret.":   ownKeys,
	"to.":       ownKeys,
	"why.":      ownKeys,
	".net":      ownKeys,
	"relay.key": "each has the file in its own data directory",
	"instance/": "the subject of an event, for people",
}

const ownKeys = "keys of a tier's own store: what others are told has the keys of wire.Desired… and wire.Reported…"

// agreedFields are fields of messages and parts of a state whose texts the other side compares.
var agreedFields = map[string]string{"What": "Ask", "As": "Part"}

func tierOf(pkg string) string {
	i := slices.IndexFunc(tiers, func(t string) bool { return within(pkg, t) })
	if i < 0 {
		return ""
	}
	return tiers[i]
}

// agreedConstants finds texts that two tiers have to agree on and that both write down.
func agreedConstants(files []*file) (out []finding) {
	type place struct {
		tier string
		finding
	}
	by := map[string][]place{}
	for _, f := range parsed(files) {
		tier := tierOf(f.pkg())
		if tier == "" || f.isTest() || suite(f.pkg()) {
			continue
		}
		for _, d := range f.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				ast.Inspect(g, func(n ast.Node) bool {
					if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
						by[text.Value] = append(by[text.Value], place{tier, finding{f.path, f.line(text), ""}})
					}
					return true
				})
			}
		}
		out = append(out, literalFields(f)...)
	}
	for _, text := range slices.Sorted(maps.Keys(by)) {
		list := by[text]
		if !slices.ContainsFunc(list, func(p place) bool { return p.tier != list[0].tier }) || unrelated[strings.Trim(text, `"`)] != "" {
			continue
		}
		for _, p := range list {
			p.what = fmt.Sprintf("%s is written down in two tiers: if they must agree, declare it in package wire, "+
				"else give the reason in unrelated", text)
			out = append(out, p.finding)
		}
	}
	return out
}

// literalFields are texts in a file that the other side of a message compares.
func literalFields(f *file) (out []finding) {
	ast.Inspect(f.ast, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		typ := lit.Type
		if a, ok := typ.(*ast.ArrayType); ok {
			typ = a.Elt
		}
		s, ok := typ.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		ast.Inspect(lit, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			key, ok := kv.Key.(*ast.Ident)
			text, is := kv.Value.(*ast.BasicLit)
			if ok && is && text.Kind == token.STRING && agreedFields[key.Name] == s.Sel.Name {
				out = append(out, finding{f.path, f.line(kv), "the other side compares this text: name a constant of package wire or rpc"})
			}
			return true
		})
		return true
	})
	return out
}

func TestAgreedConstants(t *testing.T) { check(t, agreedConstants) }

func TestAgreedConstantsFindsViolations(t *testing.T) {
	const says = `: if they must agree, declare it in package wire, else give the reason in unrelated`
	plant(t, agreedConstants, map[string]planted{
		"one tier": {files: map[string]string{
			"internal/root/a.go":   "package root\nconst a = \"a/\"",
			"internal/root/b/b.go": "package b\nconst b = \"a/\"",
			"internal/bus/a.go":    "package bus\nconst a = \"a/\"",
		}},
		"own keys": {files: map[string]string{
			"internal/root/a.go":    "package root\nconst a = \"inst.\"",
			"internal/cluster/a.go": "package cluster\nconst a = \"inst.\"",
		}},
		"two tiers": {map[string]string{
			"internal/root/a.go":      "package root\nconst a = \"a/\"",
			"internal/cluster/b/b.go": "package b\nconst (\n\tb = \"a/\"\n)",
		}, []string{"internal/cluster/b/b.go:3 two tiers" + says, "internal/root/a.go:2 two tiers" + says}},
		"a question": {map[string]string{
			"internal/root/a.go": "package root\nvar q = rpc.Ask{What: \"logs\"}",
		}, []string{"internal/root/a.go:2 compares"}},
		"a named question": {files: map[string]string{
			"internal/root/a.go": "package root\nvar q = rpc.Ask{What: rpc.AskLogs}",
		}},
		"a part": {map[string]string{
			"internal/cluster/a.go": "package cluster\nvar q = []exchange.Part{{As: \"route.\"}}",
		}, []string{"internal/cluster/a.go:2 compares"}},
	})
}
