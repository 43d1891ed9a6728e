package bus

import (
	"testing"
)

func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a.b", "a.b", true}, {"a.b", "a", false}, {"a", "a.b", false}, {"a.*", "a.b", true}, {"a.*", "a.b.c", false},
		{"a.>", "a.b.c", true}, {"a.>", "a", false}, {">", "a", true}, {">", ">", true}, {"*", ">", false}, {"a.*", "a.>", false},
		{"a.>", "a.>", true}, {"a.>", "a.*", true}, {"a.b", "a.*", false}, {"*.b", "*.b", true}, {"*.b", ">", false}, {"a.>", "*.b", false},
	} {
		if got := Covers(tc.pattern, tc.subject); got != tc.want {
			t.Errorf("covers(%q, %q) = %v", tc.pattern, tc.subject, got)
		}
	}
}
