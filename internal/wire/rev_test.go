package wire

import "testing"

// A timeline tells a revision that it never had from one that it had, and from one that is
// older than it remembers.
func TestAhead(t *testing.T) {
	short := Timeline{{ID: "a", First: 1, At: 10}, {ID: "b", First: 11, At: 20}, {ID: "c", First: 21, At: 30}}
	full := Timeline{{ID: "k", First: 101, At: 40}, {ID: "l", First: 201, At: 50}}
	for _, c := range []struct {
		name  string
		t     Timeline
		r     Rev
		last  uint64
		from  string
		ahead bool
	}{
		{"nothing", short, Rev{}, 25, "", false},
		{"no timeline", nil, Rev{"x", 5}, 0, "", false},
		{"now", short, Rev{"c", 25}, 25, "", false},
		{"an earlier era", short, Rev{"a", 10}, 25, "", false},
		{"what an era began with", short, Rev{"b", 10}, 25, "", false},
		{"the rest of an era of which only the start was copied", short, Rev{"a", 12}, 25, "b", true},
		{"this era, beyond its end", short, Rev{"c", 26}, 25, "c", true},
		{"an era that began after the copy", short, Rev{"x", 30}, 25, "c", true},
		{"the same, before the copy was started the last time", short, Rev{"x", 15}, 25, "b", true},
		{"before its era began", short, Rev{"b", 3}, 25, "", false},
		{"a store that was made anew", Timeline{{ID: "n", First: 1}}, Rev{"x", 30}, 0, "n", true},
		{"nothing was ever stored there", short, Rev{"x", 0}, 25, "", false},
		{"an era that is not remembered", full, Rev{"x", 99}, 300, "", false},
		{"the end of an era that is not remembered", full, Rev{"x", 100}, 300, "", false},
		{"beyond that", full, Rev{"x", 101}, 300, "k", true},
	} {
		from, ahead := c.t.Ahead(c.r, c.last)
		if from.ID != c.from || ahead != c.ahead {
			t.Errorf("%s: %q %v, want %q %v", c.name, from.ID, ahead, c.from, c.ahead)
		}
	}
}

// A peer that was away for more starts than are remembered is not taken for one that has
// seen more.
func TestAPeerThatWasAwayForLongIsNotAhead(t *testing.T) {
	var line Timeline
	var old Rev
	for n := range uint64(3 * MaxEras) {
		line = line.Next(10 * n)
		if n == 5 {
			old = line.At(10*n + 7)
		}
		last := 10*n + 9
		if _, ahead := line.Ahead(old, last); ahead {
			t.Fatalf("after %d starts %s is ahead of %+v", n, old, line)
		}
	}
	if line.Known(old, 10*3*MaxEras) || len(line) != MaxEras {
		t.Error("it is still known: the test tests nothing")
	}
}
