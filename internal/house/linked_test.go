package house

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// unlinked are folders that must not be linked into a program, however indirectly, by the
// folder of the program.
var unlinked = map[string]struct {
	dirs   []string
	reason string
}{
	"cmd/verge": {[]string{"internal/lab", "internal/cli/labcmd"}, "the lab is a program of its own, which no machine at the edge needs"},
}

// linked follows the imports of programs.
func linked(files []*file) (out []finding) {
	byPackage := map[string][]*file{}
	for _, f := range parsed(files) {
		if !f.isTest() {
			byPackage[f.pkg()] = append(byPackage[f.pkg()], f)
		}
	}
	for program, rule := range unlinked {
		seen := map[string]bool{program: true}
		for todo := []string{program}; len(todo) > 0; todo = todo[1:] {
			for _, f := range byPackage[todo[0]] {
				for _, i := range f.imports() {
					own := i.own()
					if own == "" || seen[own] {
						continue
					}
					seen[own] = true
					todo = append(todo, own)
					if slices.ContainsFunc(rule.dirs, func(dir string) bool { return within(own, dir) }) {
						out = append(out, finding{f.path, i.line, fmt.Sprintf("this links %s into %s: %s", own, program, rule.reason)})
					}
				}
			}
		}
	}
	return out
}

func TestLinked(t *testing.T) { check(t, linked) }

func TestLinkedFindsViolations(t *testing.T) {
	src := func(pkg string, imports ...string) string {
		var b strings.Builder
		b.WriteString("package " + pkg + "\n")
		for _, i := range imports {
			b.WriteString("import _ \"" + module + "/" + i + "\"\n")
		}
		return b.String()
	}
	plant(t, linked, map[string]planted{
		"the lab is of the other program": {files: map[string]string{
			"cmd/verge/main.go": src("main", "internal/daemon"), "cmd/verge-lab/main.go": src("main", "internal/cli/labcmd"),
			"internal/daemon/a.go": src("daemon", "internal/cli"), "internal/cli/a.go": src("cli"), "internal/cli/a_test.go": src("cli", "internal/lab"),
			"internal/cli/labcmd/a.go": src("labcmd", "internal/lab"),
		}},
		"linked": {map[string]string{
			"cmd/verge/main.go": src("main", "internal/daemon"), "internal/daemon/a.go": src("daemon", "internal/cli"),
			"internal/cli/a.go": src("cli", "internal/lab/experiments"),
		}, []string{"internal/cli/a.go:2 links internal/lab/experiments into cmd/verge"}},
	})
}
