package trace

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	minutes := func(calls ...float64) (out []Part) {
		for _, c := range calls {
			out = append(out, Part{c, time.Minute})
		}
		return out
	}
	table := "HashOwner,HashApp,HashFunction,Trigger,1,2,3\na,b,c,http,1,2,3\na,b,d,timer,4,5.5,6\n"
	for name, x := range map[string]struct {
		text string
		row  int
		want []Part
		err  string
	}{
		"numbers": {"\ufeff1\r\n\n# so\n2.5\n1e3", 0, minutes(1, 2.5, 1000), ""},
		"header":  {"calls\n1\n", 0, minutes(1), ""},
		"seconds": {"time,rate\n0,6\n30,12\n90,3\n", 0,
			[]Part{{6, 30 * time.Second}, {12, time.Minute}, {3, time.Minute}}, ""},
		"dates": {"2026-01-01T00:00:00Z,6\n\"2026-01-01 00:00:10\",7\n", 0,
			[]Part{{6, 10 * time.Second}, {7, 10 * time.Second}}, ""},
		"durations":      {"0s,6\n1m30s,7\n", 0, []Part{{6, 90 * time.Second}, {7, 90 * time.Second}}, ""},
		"one time":       {"5,6", 0, minutes(6), ""},
		"table":          {table, 2, minutes(4, 5.5, 6), ""},
		"short names":    {"function,m1,m2\nx,7,8", 1, minutes(7, 8), ""},
		"no row":         {table, 0, nil, "a table of 2 functions"},
		"too far":        {table, 3, nil, "no row 3: the table has 2"},
		"bad cell":       {table + "a,b,e,http,1,x,3", 3, nil, "line 4: field 6: \"x\" is not a number of calls"},
		"no calls":       {table + "a,b,e,http", 3, nil, "line 4: it has 4 fields"},
		"row of nothing": {"1\n", 1, nil, "line 1: a row can be chosen"},
		"empty":          {"calls\n", 0, nil, "no line with a number"},
		"text":           {"1\n\nx\n", 0, nil, "line 3: \"x\""},
		"typing error":   {"1o\n2\n", 0, nil, "line 1: \"1o\""},
		"negative":       {"1\n-1", 0, nil, "line 2"},
		"not finite":     {"1\nNaN", 0, nil, "line 2"},
		"back":           {"10,1\n10,1", 0, nil, "line 2: the time 10 is not after"},
		"no time":        {"soon,1", 0, nil, "line 1: \"soon\" is no time"},
		"mixed":          {"1\n2,3", 0, nil, "line 2: it has 2 fields, the lines before it 1"},
		"many fields":    {"1,2,3", 0, nil, "line 1: it has 3 fields"},
		"long line":      {"1\n" + strings.Repeat("1", maxLine+1), 0, nil, "line 2: it is longer"},
	} {
		got, err := Read(strings.NewReader(x.text), x.row, time.Minute)
		if x.err == "" {
			if err != nil || !slices.Equal(got, x.want) {
				t.Errorf("%s: %v, %v", name, got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPerSecond(t *testing.T) {
	parts := []Part{{60, 90 * time.Second}, {120, time.Minute}}
	if d := Length(parts); d != 150*time.Second {
		t.Error(d)
	}
	for speed, want := range map[float64][]float64{60: {60, 90, 60}, 100: {110, 100}} {
		got := PerSecond(parts, time.Minute, speed)
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%v times as fast: %v", speed, got)
		}
	}
	if got := PerSecond(parts, time.Minute, 1); len(got) != 150 || got[89] != 1 || got[90] != 2 {
		t.Error(got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("1\n2", 0)
	f.Add("function,m1,m2\nx,7,8", 1)
	f.Add("0,1\n1m,2", 0)
	f.Fuzz(func(t *testing.T, text string, row int) {
		parts, err := Read(strings.NewReader(text), row, time.Minute)
		if err == nil && len(parts) == 0 {
			t.Error("nothing, and no error")
		}
		for _, p := range parts {
			if !(p.Calls >= 0 && p.Calls <= maxCalls) || p.Lasts < 0 {
				t.Error(p)
			}
		}
	})
}
