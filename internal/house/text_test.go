package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines of one file. Longer ones hold more than one thing.
const maxLines = 800

func fileLength(files []*file) []finding {
	var out []finding
	for _, f := range files {
		if n := strings.Count(f.src, "\n"); n > maxLines {
			out = append(out, finding{f.path, maxLines + 1, fmt.Sprintf("%d lines, at most %d: split it by what belongs together", n, maxLines)})
		}
	}
	return out
}

// sleepingTests finds tests that wait for time to pass, and so either waste it
// or fail on a slow machine.
func sleepingTests(files []*file) []finding {
	var out []finding
	for _, f := range parsed(files) {
		if !f.isTest() {
			continue
		}
		clock := ""
		for _, i := range f.imports() {
			if i.path == "time" {
				clock = i.name
			}
		}
		synctest := slices.ContainsFunc(f.imports(), func(i imported) bool { return i.path == "testing/synctest" })
		if clock == "" || synctest {
			continue // in a synctest bubble sleeping is virtual
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == clock && sel.Sel.Name == "Sleep" {
				out = append(out, finding{f.path, f.line(n), "a test sleeps: use testing/synctest, an explicit clock, or poll a condition on a ticker with a deadline"})
			}
			return true
		})
	}
	return out
}

// bannedText must not stand in Go files. The words are put together here so
// that this file does not find itself.
var (
	bannedWords = []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}
	bannedPaths = []string{"/wo" + "rk/", "/Us" + "ers/"}
	bannedText  = []struct {
		texts   []string // one of them is in all that pattern finds
		pattern *regexp.Regexp
		what    string
	}{
		{bannedWords, regexp.MustCompile(`\b(` + strings.Join(bannedWords, "|") + `)\b`), "finish it now, or open an issue and leave it out"},
		{bannedPaths, regexp.MustCompile(`(^|[^\w.\-/])(` + strings.Join(bannedPaths, "|") + `)`), "an absolute path of one machine: take it from a flag, the working directory or t.TempDir()"},
	}
)

func cleanText(files []*file) []finding {
	var out []finding
	for _, f := range files {
		for _, b := range bannedText {
			// To look for a text costs a hundredth of looking for a pattern.
			if !slices.ContainsFunc(b.texts, func(text string) bool { return strings.Contains(f.src, text) }) {
				continue
			}
			for i, line := range strings.Split(f.src, "\n") {
				if m := b.pattern.FindString(line); m != "" {
					out = append(out, finding{f.path, i + 1, fmt.Sprintf("%q: %s", strings.TrimSpace(m), b.what)})
				}
			}
		}
	}
	return out
}

func TestFilesAreShort(t *testing.T)     { check(t, fileLength) }
func TestTestsDoNotSleep(t *testing.T)   { check(t, sleepingTests) }
func TestNothingIsLeftOver(t *testing.T) { check(t, cleanText) }

func TestTextRulesFindViolations(t *testing.T) {
	at := func(name, src string) map[string]string { return map[string]string{"a/" + name: "package a\n" + src} }
	plant(t, fileLength, map[string]planted{
		"short": {files: at("a.go", strings.Repeat("\n", maxLines-1))},
		"long":  {at("a.go", strings.Repeat("\n", maxLines)), []string{fmt.Sprintf("a/a.go:%d lines", maxLines+1)}},
	})
	plant(t, sleepingTests, map[string]planted{
		"sleeps":          {at("a_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }"), []string{"a/a_test.go:3 sleeps"}},
		"renamed":         {at("a_test.go", "import clock \"time\"\nvar f = clock.Sleep"), []string{"a/a_test.go:3 sleeps"}},
		"virtual":         {files: at("a_test.go", "import (\n\"time\"\n\"testing/synctest\"\n)\nvar _ = synctest.Test\nfunc f() { time.Sleep(1) }")},
		"not a test":      {files: at("a.go", "import \"time\"\nfunc f() { time.Sleep(1) }")},
		"somebody else's": {files: at("a_test.go", "import \"time\"\nvar _ time.Time\nfunc f(c clock) { c.Sleep(1) }")},
	})
	plant(t, cleanText, map[string]planted{
		"clean":    {files: at("a.go", "// a network/work/place, https://host/work/it, DOTODOS")},
		"leftover": {at("a.go", "// TO"+"DO: later"), []string{"a/a.go:2 open an issue"}},
		"path":     {at("a.go", "const p = \"/wo"+"rk/main\""), []string{"a/a.go:2 absolute path"}},
	})
}
