package template

import (
	"errors"
	"slices"
	"testing"

	reference "github.com/compose-spec/compose-go/v2/template"
)

// TestTemplate: references are replaced as compose-go replaces them.
func TestTemplate(t *testing.T) {
	vars := map[string]string{"A": "a", "E": "", "N": "x$y", "_1": "one"}
	find := func(name string) (string, bool) { v, set := vars[name]; return v, set }
	for _, text := range []string{
		"", "plain", "$", "a$", "$$", "$$A", "$A", "${A}", "$A$A", "x${A}y$_1z", "$1", "$ A", "${A}${E}|${X}|",
		"$$${A}", "${N}",
		"${A:-d}", "${E:-d}", "${E-d}", "${X:-d}", "${X-d}", "${X:-}", "${A:+r}", "${E:+r}", "${E+r}", "${X+r}",
		"${X:+r}",
		"${A:?m}", "${E?m}", "${E:?m}", "${X:?m}", "${X?}", "${X:-${A}}", "${X:-${Y:-d}}", "${A:+${N}}", "${X:-a b:c}",
		"${X:-$$}",
		"${", "${A", "${}", "${1}", "${A b}", "${A!}", "${a}", "${X:-{}}", "{A}", "}${A}{",
	} {
		want, wantErr := reference.SubstituteWithOptions(text, find, reference.WithoutLogging)
		tpl := &Template{Lookup: find}
		got, err := tpl.Expand(text, 0)
		if (err != nil) != (wantErr != nil) || err == nil && got != want {
			t.Errorf("%q becomes %q, %v; compose-go makes %q, %v of it", text, got, err, want, wantErr)
		}
	}
	tpl := &Template{Lookup: find}
	if _, err := tpl.Expand("$X ${Y:-${Z}} ${W:-d} ${A:-$V}", 0); err != nil ||
		!slices.Equal(tpl.Unset, []string{"X", "Z"}) {
		t.Errorf("unset are %q, %v", tpl.Unset, err)
	}
	var needed *RequiredError
	if _, err := tpl.Expand("${X:?because of $A}", 0); !errors.As(err, &needed) || needed.Name != "X" ||
		needed.message != "because of a" {
		t.Errorf("%v", err)
	}
}
