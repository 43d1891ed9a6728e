package imagestore

import (
	"testing"
)

func TestProgressInWords(t *testing.T) {
	p := &pulling{name: "x", seen: map[string]int64{}}
	for _, step := range []struct {
		all, done int64
		want      string
	}{{0, 0, "pulling x"}, {120e6, 34e6, "pulling x: 34 of 120 MB"}, {120e6, 120e6, "unpacking x"}} {
		p.seen["layer"], p.done = step.all, step.done
		if got := p.words(); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
}
