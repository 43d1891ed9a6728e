package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// Charts are drawn below each other as XML, whatever their names are; nothing is drawn of
// nothing.
func TestSVG(t *testing.T) {
	if got := SVG(Chart{X: "x"}); got != "" {
		t.Errorf("of nothing: %s", got)
	}
	got := SVG(
		Chart{X: "a<b", Series: "s", Title: "t&t", Lines: map[string][]Point{"2": {{1, 2}, {0, 1}}, "10": {{0, 0}}},
			Dots: true},
		Chart{},
		Chart{X: "name", Lines: map[string][]Point{"": {{0, 1}, {1, 3}}}, Texts: []string{"one", "two"}})
	for what, want := range map[string]int{"<polyline": 3, "<circle": 3, ">one</text>": 1, "a&lt;b": 1,
		`height="800"`: 1} {
		if n := strings.Count(got, what); n != want {
			t.Errorf("%d times %s, want %d", n, what, want)
		}
	}
	if strings.Index(got, ">s 2<") > strings.Index(got, ">s 10<") {
		t.Error("10 comes before 2")
	}
	d := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
