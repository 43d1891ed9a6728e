package house

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// bannedInDeciders are packages whose very import makes a decider impure.
// net/netip is arithmetic and stays allowed.
var bannedInDeciders = map[string]string{
	"os":           "a decider reads no files and no environment",
	"os/exec":      "a decider starts nothing",
	"os/signal":    "a decider starts nothing",
	"io/fs":        "a decider reads no files",
	"net":          "a decider does no I/O",
	"net/http":     "a decider does no I/O",
	"syscall":      "a decider does no I/O",
	"log":          "a decider does not log: its record explains it",
	"log/slog":     "a decider does not log: its record explains it",
	"context":      "a decider neither waits nor is cancelled",
	"sync":         "a decider shares nothing",
	"sync/atomic":  "a decider shares nothing",
	"crypto/rand":  "randomness is a seed in the arguments",
	"math/rand":    "use math/rand/v2 with a seed from the arguments",
	"hash/maphash": "its hashes differ in each process: a replay would too",
	"runtime":      "a decision depends on its arguments alone",
	"unsafe":       "a decision depends on its arguments alone",
}

// allowedInDeciders are exceptions by folder, each with its reason.
var allowedInDeciders = map[string]map[string]string{
	"internal/access": {"context": "a context carries who asks to who decides; nothing waits on it"},
}

// bannedCalls are functions of packages that are otherwise fine.
var bannedCalls = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
}

// seeded are the names of math/rand/v2 that need a source; all others draw from
// the process's own.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Source", "Zipf"}

func pureDeciders(files []*file) []finding {
	var out []finding
	for _, f := range parsed(files) {
		room, layer := roomOf(f.pkg())
		if layer != deciders || f.isTest() {
			continue
		}
		names := map[string]string{}
		for _, i := range f.imports() {
			names[i.name] = i.path
			if why, bad := bannedInDeciders[i.path]; bad && allowedInDeciders[room][i.path] == "" {
				out = append(out, finding{f.path, i.line, fmt.Sprintf("import of %s: %s", i.path, why)})
			}
			if i.name == "." {
				out = append(out, finding{f.path, i.line, "dot import: this rule could not see what is called"})
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				out = append(out, finding{f.path, f.line(n), "go statement: a decider runs in its caller's goroutine and ends with the answer"})
			case *ast.SelectorExpr:
				if why := impure(names, n); why != "" {
					out = append(out, finding{f.path, f.line(n), why})
				}
			}
			return true
		})
	}
	return out
}

func impure(names map[string]string, sel *ast.SelectorExpr) string {
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	switch pkg := names[x.Name]; {
	case slices.Contains(bannedCalls[pkg], sel.Sel.Name):
		return fmt.Sprintf("%s.%s: time is an argument of a decider", pkg, sel.Sel.Name)
	case pkg == "math/rand/v2" && !slices.Contains(seeded, sel.Sel.Name):
		return fmt.Sprintf("rand.%s draws from the process's own source: take a seed as argument and use rand.New(rand.NewPCG(…))", sel.Sel.Name)
	}
	return ""
}

func TestDecidersArePure(t *testing.T) { check(t, pureDeciders) }

func TestDecidersArePureFindsViolations(t *testing.T) {
	at := "internal/policy/x/x.go"
	one := func(lines ...string) map[string]string {
		return map[string]string{at: "package x\n" + strings.Join(lines, "\n")}
	}
	plant(t, pureDeciders, map[string]planted{
		"pure": {files: one(`import ("time"; "math/rand/v2")`, `func f(t time.Time) { _ = t.Add(time.Second); _ = rand.New(rand.NewPCG(1, 2)).IntN(3) }`)},
		"elsewhere": {files: map[string]string{
			"internal/policy/x/x_test.go": "package x\nimport \"time\"\nvar _ = time.Now()",
			"internal/root/x.go":          "package root\nimport \"time\"\nvar _ = time.Now()",
		}},
		"clock":         {one(`import "time"`, `var now = time.Now()`), []string{at + ":3 time.Now"}},
		"access":        {map[string]string{"internal/access/x.go": "package access\nimport \"context\"\nimport \"os\""}, []string{"internal/access/x.go:3 import of os"}},
		"renamed clock": {one(`import t "time"`, `var f = t.Since`), []string{at + ":3 time.Since"}},
		"own variable":  {files: one(`type clock struct{ Now int }`, `func f(time clock) int { return time.Now }`)},
		"dot import":    {one(`import . "time"`, `var now = Now()`), []string{at + ":2 dot import"}},
		"random":        {one(`import "math/rand/v2"`, `var n = rand.IntN(3)`), []string{at + ":3 rand.IntN"}},
		"old random":    {one(`import "math/rand"`, `var n = rand.New(nil)`), []string{at + ":2 math/rand"}},
		"goroutine":     {one(`func f() {`, `go f() }`), []string{at + ":3 go statement"}},
		"log and files": {one(`import "log/slog"`, `import "os"`), []string{at + ":2 log/slog", at + ":3 import of os"}},
	})
}
