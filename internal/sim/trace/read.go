package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// Bounds of a trace.
const (
	maxBytes = 512 << 20 // a day of all functions of the Azure trace is a quarter of that
	maxLine  = 1 << 20
	maxParts = 1_000_000
	maxCalls = 1e9 // of a part
)

// Part of a trace: a number of calls per step, for a while.
type Part struct {
	Calls float64
	Lasts time.Duration
}

// Read a trace in CSV. It is one of
//
//   - a number per line: calls per step, one line per step;
//   - a time and a number per line: calls per step from that time until the next line's.
//     The last lasts as long as the one before it. Times are dates (RFC 3339), durations
//     or seconds, each later than the one before;
//   - a table of functions, whose header names its last columns 1, 2, 3 … or m1, m2, …,
//     one per step, as that of the Azure Functions trace. Row says which function, from 1.
//
// A header, empty lines and lines that begin with # are skipped. Errors name the line.
func Read(r io.Reader, row int, step time.Duration) ([]Part, error) {
	left := &io.LimitedReader{R: r, N: maxBytes}
	p := parser{row: row, step: step}
	lines := bufio.NewScanner(left)
	lines.Buffer(nil, maxLine)
	n := 0
	for !p.done && lines.Scan() {
		n++
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d: it is longer than %d bytes", n+1, maxLine)
	case err != nil:
		return nil, fmt.Errorf("after line %d: %w", n, err)
	case left.N == 0 && !p.done:
		return nil, fmt.Errorf("after line %d: a trace has at most %d MiB", n, maxBytes>>20)
	}
	return p.end()
}

type parser struct {
	row  int
	step time.Duration

	seen   bool // a line
	fields int  // of a line, without a table
	table  int  // the first column of calls in a table of functions
	rows   int  // of the table
	before float64
	parts  []Part
	done   bool
}

func (p *parser) line(line string) error {
	cells := strings.Split(line, ",")
	for i, c := range cells {
		cells[i] = strings.Trim(c, " \t\"")
	}
	first := !p.seen
	p.seen = true
	if first {
		if p.table = stepsFrom(cells); p.table > 0 {
			return nil
		}
		if c := cells[len(cells)-1]; c != "" && (c[0]|0x20 >= 'a' && c[0]|0x20 <= 'z') {
			return nil // a header
		}
	}
	if p.table > 0 {
		return p.function(cells)
	}
	if p.fields == 0 {
		p.fields = len(cells)
	}
	switch {
	case len(cells) > 2:
		return fmt.Errorf("it has %d fields; a line is a number, or a time and a number; a table of functions "+
			"begins with a header that ends in 1,2,3,…", len(cells))
	case len(cells) != p.fields:
		return fmt.Errorf("it has %d fields, the lines before it %d", len(cells), p.fields)
	case p.row > 0:
		return errors.New("a row can be chosen only from a table of functions")
	case len(p.parts) >= maxParts:
		return fmt.Errorf("a trace has at most %d lines", maxParts)
	}
	calls, err := count(cells[len(cells)-1])
	if err != nil {
		return err
	}
	if len(cells) == 2 {
		at, err := when(cells[0])
		if err != nil {
			return err
		}
		if n := len(p.parts); n > 0 {
			d := at - p.before
			if d <= 0 || d > math.MaxInt64/2e9 {
				return fmt.Errorf("the time %s is not after that of the line before, or much later", cells[0])
			}
			p.parts[n-1].Lasts = time.Duration(d * float64(time.Second))
		}
		p.before = at
	}
	p.parts = append(p.parts, Part{calls, p.step})
	return nil
}

// function parses a row of a table; rows other than the wanted one are only counted.
func (p *parser) function(cells []string) error {
	if p.rows++; p.rows != p.row {
		return nil
	}
	if len(cells) <= p.table {
		return fmt.Errorf("it has %d fields, and calls begin in field %d", len(cells), p.table+1)
	}
	for i, c := range cells[p.table:] {
		calls, err := count(c)
		if err != nil {
			return fmt.Errorf("field %d: %w", p.table+i+1, err)
		}
		p.parts = append(p.parts, Part{calls, p.step})
	}
	p.done = true
	return nil
}

func (p *parser) end() ([]Part, error) {
	switch n := len(p.parts); {
	case n > 0 && p.fields == 2 && n > 1:
		p.parts[n-1].Lasts = p.parts[n-2].Lasts
	case n > 0:
	case p.table > 0 && p.row == 0:
		return nil, fmt.Errorf("it is a table of %d functions: choose the row of one, from 1 to %d", p.rows, p.rows)
	case p.table > 0:
		return nil, fmt.Errorf("there is no row %d: the table has %d", p.row, p.rows)
	default:
		return nil, errors.New("there is no line with a number in it")
	}
	return p.parts, nil
}

// stepsFrom is the index of the first of the columns 1, 2, 3 …, 0 if there are none. The function
// precedes them.
func stepsFrom(header []string) int {
	for i := 1; i+1 < len(header); i++ {
		if strings.TrimPrefix(header[i], "m") == "1" && strings.TrimPrefix(header[i+1], "m") == "2" {
			return i
		}
	}
	return 0
}

func count(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= maxCalls) {
		return 0, fmt.Errorf("%.40q is not a number of calls, from 0 to %.0e", s, maxCalls)
	}
	return v, nil
}

// when parses a time, in seconds.
func when(s string) (float64, error) {
	if v, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(v) < 1e15 {
		return v, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return d.Seconds(), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04"} {
		if t, err := time.Parse(form, s); err == nil {
			return float64(t.Unix()) + float64(t.Nanosecond())/1e9, nil
		}
	}
	return 0, fmt.Errorf("%.40q is no time: write a date as 2006-01-02T15:04:05Z, a duration as 1m30s, or seconds", s)
}

// PerSecond returns the calls of each second when a trace is played at a multiple of its speed.
func PerSecond(parts []Part, step time.Duration, speed float64) []float64 {
	var out []float64
	now := 0.0
	for _, p := range parts {
		rate, until := p.Calls/step.Seconds()*speed, now+p.Lasts.Seconds()/speed
		for now < until-1e-9 {
			second := math.Floor(now + 1e-9)
			to := min(until, second+1)
			for len(out) <= int(second) {
				out = append(out, 0)
			}
			out[int(second)] += rate * (to - now)
			now = to
		}
		now = until
	}
	return out
}

// Length of a trace at its original speed.
func Length(parts []Part) time.Duration {
	sum := 0.0
	for _, p := range parts {
		sum += p.Lasts.Seconds()
	}
	return time.Duration(min(sum*float64(time.Second), math.MaxInt64/2))
}
