package experiment

import (
	"fmt"
	"math"
	"slices"

	"github.com/verge-edge/verge/internal/chart"
)

// Plot is how rows become a picture: lines through the points of each series.
type Plot struct {
	X, Series string // params; x is a number, or a text that is put in order
	Metric    string
	Title     string
	More      []Plot // drawn below it
}

// svg draws the rows, a panel for each plot; "" if none of them is in the picture.
func (p *Plot) svg(rows Rows) string {
	var charts []chart.Chart
	for _, q := range append([]Plot{*p}, p.More...) {
		lines, texts := q.lines(rows)
		charts = append(charts, chart.Chart{X: q.X, Series: q.Series, Title: q.Title, Lines: lines, Texts: texts, Dots: true})
	}
	return chart.SVG(charts...)
}

// lines of the rows by series, and what stands at 0, 1, … where x is a text.
func (p *Plot) lines(rows Rows) (lines map[string][]chart.Point, texts []string) {
	lines = map[string][]chart.Point{}
	for _, r := range rows {
		if r.Metric != p.Metric {
			continue
		}
		x, ok := toFloat(r.Params[p.X])
		if !ok {
			t := fmt.Sprint(r.Params[p.X])
			if !slices.Contains(texts, t) {
				texts = append(texts, t)
			}
			x = float64(slices.Index(texts, t))
		}
		name := fmt.Sprint(r.Params[p.Series])
		lines[name] = append(lines[name], chart.Point{X: x, Y: r.Measured})
	}
	return lines, texts
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, !math.IsNaN(v)
	case int:
		return float64(v), true
	}
	return 0, false
}
