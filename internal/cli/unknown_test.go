package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// TestUnknownCommandsSuggestWhatIsMeant: a typing mistake and the names that other tools
// use lead to the command, and a word that is near nothing to none.
func TestUnknownCommandsSuggestWhatIsMeant(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	for typed, want := range map[string]string{
		"ps": "did you mean get?", "create": "did you mean apply?", "aply": "did you mean apply?",
		"inspect": "did you mean describe?",
		"rm":      "did you mean delete?", "statsu": "did you mean status?",
		"qqq": "", "foo": "", "s3": "", "xyzzy": "", "p": "",
	} {
		r := f.run(typed)
		has := strings.Contains(r.stderr, "did you mean")
		if r.code != 1 || !strings.Contains(r.stderr, "unknown command") || has != (want != "") ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("verge %s: %d\n%s", typed, r.code, r.stderr)
		}
		if n := strings.Count(r.stderr, " or "); n > 2 {
			t.Errorf("verge %s suggests %d commands:\n%s", typed, n+1, r.stderr)
		}
	}
}

// TestTablesCutLongTexts: a reason of a thousand characters does not make every line of
// a table that long; -o wide has all of it, and names are never cut.
func TestTablesCutLongTexts(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	long := strings.TrimSpace(strings.Repeat("no room ", 125))
	name := strings.Repeat("a", 63) + "/" + strings.Repeat("b", 63)
	f.fake.Apps = []apiv1.AppView{{Name: name, Message: long}}
	table, wide := f.run("get", "applications"), f.run("get", "applications", "-o", "wide")
	for _, line := range strings.Split(table.stdout, "\n") {
		if len([]rune(line)) > 400 {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
	if !strings.Contains(table.stdout, name) || !strings.Contains(table.stdout, "no room…") &&
		!strings.Contains(table.stdout, "no…") {
		t.Errorf("the table:\n%s", table.stdout)
	}
	if !strings.Contains(table.stderr, "-o wide") {
		t.Errorf("nothing says where the whole text is: %s", table.stderr)
	}
	if !strings.Contains(wide.stdout, long) {
		t.Errorf("-o wide:\n%s", wide.stdout)
	}
}
