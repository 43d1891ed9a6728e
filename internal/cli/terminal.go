package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/verge-edge/verge/api"
)

// colour is an ANSI colour; used for what needs attention and nothing else.
type colour string

const (
	red    colour = "\x1b[31m"
	yellow colour = "\x1b[33m"
	plain  colour = ""
)

// paint colours text for w, if w is a terminal and the user did not object
// (https://no-color.org).
func (a *app) paint(w io.Writer, c colour, text string) string {
	if c == plain || text == "" || !a.isTerminal(w) {
		return text
	}
	return string(c) + text + "\x1b[0m"
}

func (a *app) isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || a.opts.Getenv("NO_COLOR") != "" || a.opts.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

func text(s string) cell { return cell{text: s} }

func textf(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }

// table writes rows in aligned columns, without trailing blanks.
func (a *app) table(header []string, rows [][]cell) error {
	width := make([]int, len(header))
	for i, h := range header {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], utf8.RuneCountInString(orDash(c.text)))
		}
	}
	var b strings.Builder
	line := func(r []cell) {
		for i, c := range r {
			t := orDash(c.text)
			b.WriteString(a.paint(a.out, c.colour, t))
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(t)+3))
			}
		}
		b.WriteByte('\n')
	}
	head := make([]cell, len(header))
	for i, h := range header {
		head[i] = text(h)
	}
	line(head)
	for _, r := range rows {
		line(r)
	}
	if _, err := io.WriteString(a.out, b.String()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// orDash makes empty cells visible and keeps what others chose from writing
// escape sequences to a terminal.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return clean(s)
}

// clean replaces control characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
}

// cleanLines is clean for a text of several lines.
func cleanLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = clean(lines[i])
	}
	return strings.Join(lines, "\n")
}

// age writes a duration as people say it: 12s, 3m, 2h, 5d.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d/time.Second))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d/time.Minute))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d/time.Hour))
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

// ageOf writes how old a report of so many seconds is; negative is never.
func ageOf(seconds float64) string {
	if seconds < 0 {
		return "never"
	}
	return age(time.Duration(seconds * float64(time.Second)))
}

// since writes how long ago t was.
func (a *app) since(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return age(a.opts.Now().Sub(t))
}

// clock writes the time of day of t.
func (a *app) clock(t time.Time) string {
	return t.In(a.opts.Now().Location()).Format("15:04:05")
}

// took writes a measured duration with as many digits as matter.
func took(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// cores writes an amount of cpu in cores: 6.5.
func cores(c api.CPU) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(c)/1000), ".0")
}

// size writes an amount of bytes with its unit: 1.5Gi.
func size(b api.Bytes) string {
	f, unit := float64(b), ""
	for _, u := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if f < 1024 {
			break
		}
		f, unit = f/1024, u
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + unit
}
