package experiments

import (
	"fmt"
	"math"
	"slices"

	"github.com/verge-edge/verge/internal/chart"
)

// plot is how rows become a picture: lines through the points of each series.
type plot struct {
	x, series string // params; x is a number, or a text that is put in order
	metric    string
	title     string
	more      []plot // drawn below it
}

// svg draws the rows, a panel for each plot; "" if none of them is in the picture.
func (p *plot) svg(rows Rows) string {
	var charts []chart.Chart
	for _, q := range append([]plot{*p}, p.more...) {
		lines, texts := q.lines(rows)
		charts = append(charts, chart.Chart{X: q.x, Series: q.series, Title: q.title, Lines: lines, Texts: texts, Dots: true})
	}
	return chart.SVG(charts...)
}

// lines of the rows by series, and what stands at 0, 1, … where x is a text.
func (p *plot) lines(rows Rows) (lines map[string][]chart.Point, texts []string) {
	lines = map[string][]chart.Point{}
	for _, r := range rows {
		if r.Metric != p.metric {
			continue
		}
		x, ok := toFloat(r.Params[p.x])
		if !ok {
			t := fmt.Sprint(r.Params[p.x])
			if !slices.Contains(texts, t) {
				texts = append(texts, t)
			}
			x = float64(slices.Index(texts, t))
		}
		name := fmt.Sprint(r.Params[p.series])
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
