// Package chart draws lines as SVG, of the experiments of the lab and of replays of a trace. A
// library would weigh more than what they need.
package chart

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
)

// Size of a picture, and its margins.
const (
	width, height = 640, 400
	left, right   = 60, 150
	above, below  = 40, 50
)

var colours = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
	"#bcbd22", "#17becf", "#000000"}

// Point of a line.
type Point struct{ X, Y float64 }

// Chart is lines through points by what they are of, Series and a name; the same X for all.
type Chart struct {
	X, Series, Title string
	Lines            map[string][]Point
	// Texts stand at 0, 1, … where X is no number.
	Texts []string
	// Dots are drawn where the points are.
	Dots bool
}

// SVG draws charts below each other, but those without lines; "" if none has any.
func SVG(charts ...Chart) string {
	var b strings.Builder
	top := 0
	for _, c := range charts {
		if len(c.Lines) > 0 {
			c.draw(&b, top)
			top += height
		}
	}
	if top == 0 {
		return ""
	}
	var out strings.Builder
	head(&out, top)
	return out.String() + b.String() + "</svg>\n"
}

func head(b *strings.Builder, high int) {
	fmt.Fprintf(b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "+
		"font-size=\"12\">\n", width, high)
	b.WriteString("<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n")
}

func byX(a, b Point) int { return cmp.Compare(a.X, b.X) }

// draw draws lines, of which there is at least one with a point, so far from the picture's
// upper edge.
func (p *Chart) draw(b *strings.Builder, top int) {
	lines, texts := p.Lines, p.Texts
	all := slices.Concat(slices.Collect(maps.Values(lines))...)
	x0, x1 := slices.MinFunc(all, byX).X, slices.MaxFunc(all, byX).X
	y1 := slices.MaxFunc(all, func(a, b Point) int { return cmp.Compare(a.Y, b.Y) }).Y
	if x1 == x0 {
		x1++
	}
	if y1 <= 0 {
		y1 = 1
	}
	at := func(q Point) (float64, float64) {
		return left + (q.X-x0)/(x1-x0)*(width-left-right), float64(top+height-below) - q.Y/y1*(height-above-below)
	}
	put := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	put(`<text x="%d" y="%d" font-size="14">%s</text>`, left, top+20, html.EscapeString(p.Title))
	for i := range 6 {
		v := y1 * float64(i) / 5
		_, y := at(Point{x0, v})
		put(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.3g</text>`, left, width-right, y, y, left-6, y+4, v)
	}
	for i := range 6 {
		v := x0 + (x1-x0)*float64(i)/5
		label := fmt.Sprintf("%.3g", v)
		if len(texts) > 0 {
			if i >= len(texts) {
				break
			}
			v, label = float64(i), texts[i]
		}
		x, _ := at(Point{v, 0})
		put(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, top+height-below+18, html.EscapeString(label))
	}
	put(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+width-right)/2, top+height-10,
		html.EscapeString(p.X))
	for i, name := range slices.SortedFunc(maps.Keys(lines), numerically) {
		colour := colours[i%len(colours)]
		slices.SortStableFunc(lines[name], byX)
		var d []string
		for _, q := range lines[name] {
			x, y := at(q)
			d = append(d, fmt.Sprintf("%.1f,%.1f", x, y))
			if p.Dots {
				put(`<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, x, y, colour)
			}
		}
		put(`<polyline fill="none" stroke="%s" points="%s"/>`, colour, strings.Join(d, " "))
		put(`<text x="%d" y="%d" fill="%s">%s</text>`, width-right+12, top+above+16*i, colour,
			html.EscapeString(strings.TrimSpace(p.Series+" "+name)))
	}
}

// Panel is lines over the same time, one value per step of it.
type Panel struct {
	Title string
	Lines map[string][]float64
}

// columns is how many points of a line a picture has room for.
const columns = 430

// OverTime draws panels below each other, over a time whose unit has so many steps.
// Longer lines are drawn as means of neighbours. Panels without a value are left out.
func OverTime(unit string, steps float64, panels ...Panel) string {
	var charts []Chart
	for _, p := range panels {
		lines := map[string][]Point{}
		for name, v := range p.Lines {
			n := (len(v) + columns - 1) / columns
			for i := 0; i < len(v); i += n {
				part := v[i:min(i+n, len(v))]
				sum := 0.0
				for _, y := range part {
					sum += y
				}
				lines[name] = append(lines[name], Point{float64(i) / steps, sum / float64(len(part))})
			}
		}
		charts = append(charts, Chart{X: unit, Title: p.Title, Lines: lines})
	}
	return SVG(charts...)
}

func numerically(a, b string) int {
	var x, y float64
	if _, err := fmt.Sscan(a, &x); err == nil {
		if _, err := fmt.Sscan(b, &y); err == nil {
			return cmp.Compare(x, y)
		}
	}
	return strings.Compare(a, b)
}
