package experiment

import (
	"math"
	"strings"
	"testing"
)

// A value beyond its bound falls short, one within it has a note of the bound, and what is no
// number is within none.
func TestBounds(t *testing.T) {
	e := &Env{Name: "x"}
	for _, c := range []struct {
		value float64
		least bool
		short bool
	}{{10, false, false}, {10.1, false, true}, {9.9, true, true}, {10, true, false}, {math.NaN(), false, true}, {math.NaN(), true, true}} {
		r := e.Row(Row{Measured: c.value})
		if c.least {
			e.AtLeast(r, 10, "the paper")
		} else {
			e.AtMost(r, 10, "the paper")
		}
		if (r.Short != "") != c.short || (r.Note == "") != c.short || !strings.Contains(r.remark(), "10 (the paper)") {
			t.Errorf("%+v: %+v", c, *r)
		}
	}
	if e.Rows.short() == nil {
		t.Error("the run does not fall short")
	}
	quick := &Env{Options: Options{Quick: true}}
	r := quick.Row(Row{Measured: 11})
	if quick.AtMost(r, 10, "the paper"); r.Short != "" {
		t.Error("a quick run falls short")
	}
	r.Short, r.Note = "it is late", "twice"
	if r.remark() != "it is late; twice" {
		t.Error(r.remark())
	}
}
