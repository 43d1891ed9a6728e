package draft

import (
	"strings"
	"testing"
)

// TestNames: what is no name becomes one, and stays unique.
func TestNames(t *testing.T) {
	for in, want := range map[string]string{"web": "web", "My_Web.App": "my-web-app", "9to5": "x9to5", "__": "x",
		"a--b": "a-b", "Ünï": "n", "-a-": "a"} {
		if got := Label(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
	long := strings.Repeat("a", 70)
	if a, b := Label(long+"x"), Label(long+"y"); a == b || len(a) > 63 || len(b) > 63 {
		t.Errorf("%q and %q", a, b)
	}
	var n Names
	if a, b, c := n.Unique("a_b"), n.Unique("a.b"), n.Unique("a-b"); a != "a-b" || b != "a-b-2" || c != "a-b-3" {
		t.Errorf("%s, %s, %s", a, b, c)
	}
}
