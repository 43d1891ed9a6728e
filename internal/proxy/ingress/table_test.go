package ingress

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFind(t *testing.T) {
	table, twice := New([]Rule{
		{"a.org", []string{""}},
		{"b.org", []string{"/api", "/api/v2/", "/img"}},
		{"b.org", []string{"/api/v2"}},
		{"*.c.org", []string{""}},
		{"x.c.org", []string{"/x"}},
		{"b.org", []string{"/img"}},
	})
	if len(twice) != 1 || twice[0] != (Conflict{"b.org", "/img", 1, 5}) {
		t.Errorf("conflicts: %+v", twice)
	}
	for _, c := range []struct {
		host, path string
		rule       int
		prefix     string
		found      Found
	}{
		{"a.org", "/", 0, "", Match},
		{"a.org", "/a/../b", 0, "", Match}, // one place: whatever it is, it leads there
		{"a.org", "*", 0, "", Match},
		{"b.org", "/api", 1, "/api", Match},
		{"b.org", "/api/", 1, "/api", Match},
		{"b.org", "/apis", 0, "", NoPath},
		{"b.org", "/api/v2", 2, "/api/v2", Match},
		{"b.org", "/api/v2x", 1, "/api", Match},
		{"b.org", "/", 0, "", NoPath},
		{"b.org", "*", 0, "", NoPath},
		{"b.org", "", 0, "", NoPath},
		{"b.org", "/img/../api", 0, "", OddPath},
		{"b.org", Path("/img/%2e%2e/api"), 0, "", OddPath},
		{"b.org", "/img/...", 1, "/img", Match},
		{"b.org", Path("/%61pi/x"), 1, "/api", Match},
		{"b.org", Path("/api%2Fx"), 0, "", NoPath},
		{"x.c.org", "/x", 4, "/x", Match},
		{"x.c.org", "/", 0, "", NoPath},
		{"y.c.org", "/x", 3, "", Match},
		{"z.y.c.org", "/x", 0, "", NoHost},
		{"c.org", "/x", 0, "", NoHost},
		{"", "/", 0, "", NoHost},
	} {
		rule, prefix, found := table.Find(c.host, c.path)
		if rule != c.rule || prefix != c.prefix || found != c.found {
			t.Errorf("%s%s: rule %d by %q, %v", c.host, c.path, rule, prefix, found)
		}
	}
}

// The longest prefix counts, in whatever order rules come.
func TestFindTheLongest(t *testing.T) {
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	rapid.Check(t, func(t *rapid.T) {
		prefixes := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) string {
			var p strings.Builder
			for _, s := range rapid.SliceOfN(segment, 0, 4).Draw(t, "prefix") {
				p.WriteString("/" + s)
			}
			return p.String()
		}), rapid.ID).Draw(t, "prefixes")
		var rules []Rule
		for _, p := range prefixes {
			rules = append(rules, Rule{"h", []string{p}})
		}
		table, _ := New(rules)
		path := "/" + strings.Join(rapid.SliceOfN(segment, 0, 5).Draw(t, "path"), "/")
		best := -1
		for i, p := range prefixes {
			if (path+"/" == p+"/" || strings.HasPrefix(path+"/", p+"/")) && (best < 0 || len(p) > len(prefixes[best])) {
				best = i
			}
		}
		rule, prefix, found := table.Find("h", path)
		switch {
		case best < 0 && found == Match, best >= 0 && (found != Match || rule != best || prefix != prefixes[best]):
			t.Fatalf("%s in %q: %d by %q, %v", path, prefixes, rule, prefix, found)
		}
	})
}

// A path in the form in which it is compared means what it meant.
func TestPathKeepsItsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meant := "/" + rapid.StringOfN(rapid.RuneFrom([]rune("aZ9-._~ %/?#é:")), 0, 20, -1).Draw(t, "path")
		var b strings.Builder
		for _, c := range []byte(meant) {
			if rapid.Bool().Draw(t, "encoded") || !unreserved(c) && c != '/' {
				b.WriteString("%" + strings.ToUpper(string("0123456789abcdef"[c>>4])) +
					string("0123456789abcdef"[c&15]))
			} else {
				b.WriteByte(c)
			}
		}
		if got, err := url.PathUnescape(Path(b.String())); err != nil || got != meant {
			t.Fatalf("%q became %q: %q, %v", b.String(), Path(b.String()), got, err)
		}
		if again := Path(Path(b.String())); again != Path(b.String()) {
			t.Fatalf("%q became another one the second time: %q", b.String(), again)
		}
	})
}

func TestCanonicalHost(t *testing.T) {
	for in, want := range map[string]string{
		"A.Org": "a.org", "a.org:80": "a.org", "a.org.": "a.org", "a.org.:80": "a.org", "[::1]:80": "::1",
		"[::1]": "::1", "": "",
	} {
		if got := CanonicalHost(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
