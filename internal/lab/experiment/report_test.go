package experiment

import (
	"testing"
)

// A brief report leaves out single draws, then what is compared with nothing, but never what falls
// short.
func TestBriefRows(t *testing.T) {
	many := func(n int, key string, more func(i int, r *Row)) (rows Rows) {
		for i := range n {
			r := Row{Params: map[string]any{key: i % n}, Metric: "m"}
			more(i, &r)
			rows = append(rows, r)
		}
		return rows
	}
	for name, c := range map[string]struct {
		rows Rows
		want int
	}{
		"few":           {many(mostRows, "scene", func(int, *Row) {}), mostRows},
		"single draws":  {append(many(300, "scene", func(int, *Row) {}), Row{Params: map[string]any{"kind": "all"}}, Row{}), 2},
		"compared":      {many(300, "x", func(i int, r *Row) { r.Params["x"] = i % 10; r.Expected = map[bool]*float64{true: Known(1)}[i < 30] }), 30},
		"nothing is":    {many(300, "x", func(i int, r *Row) { r.Params["x"] = i % 10 }), mostRows},
		"short ones":    {many(300, "x", func(i int, r *Row) { r.Params["x"], r.Short = i%10, map[bool]string{true: "no"}[i >= 295] }), mostRows + 5},
		"papers' draws": {many(300, "scene", func(i int, r *Row) { r.Paper = map[bool]*float64{true: Known(1)}[i < 7] }), 7},
	} {
		t.Run(name, func(t *testing.T) {
			out, left := c.rows.brief()
			if len(out) != c.want || left != len(c.rows)-len(out) {
				t.Errorf("%d rows, and %d are left out, want %d", len(out), left, c.want)
			}
			short := func(r Row) bool { return r.Short != "" }
			if a, b := len(c.rows.those(short)), len(out.those(short)); a != b {
				t.Errorf("%d of %d that fall short are there", b, a)
			}
		})
	}
}
