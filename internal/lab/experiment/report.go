package experiment

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Save writes the rows of an experiment to a directory: NAME.json, NAME.csv and,
// where there is something to draw, NAME.svg.
func (x Experiment) Save(dir string, rows Rows) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("directory of results: %w", err)
	}
	b, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	var table strings.Builder
	w := csv.NewWriter(&table)
	head, lines := rows.Table()
	if err := errors.Join(w.Write(head), w.WriteAll(lines)); err != nil {
		return err
	}
	files := map[string]string{".json": string(b), ".csv": table.String()}
	if x.Plot != nil {
		files[".svg"] = x.Plot.svg(rows)
	}
	for end, text := range files {
		if text == "" {
			if err := os.Remove(filepath.Join(dir, x.Name+x.Suffix+end)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("former result: %w", err)
			}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, x.Name+x.Suffix+end), []byte(text), 0o644); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}

// mostRows of an experiment are in a report that is to be brief.
const mostRows = 80

// mostValues of a parameter: one with more numbers single draws, such as scenes.
const mostValues = 20

// brief are the rows that a brief report has: all of a few; of many those that are about more than
// single draws, and of still too many those that are compared with something or have a bound. Where
// none are, the first. left is how many it leaves out.
func (rows Rows) brief() (out Rows, left int) {
	if len(rows) <= mostRows {
		return rows, 0
	}
	single := rows.single()
	short := func(r Row) bool { return r.Short != "" }
	wider := func(r Row) bool { return short(r) || !single(r) }
	for _, want := range []func(Row) bool{
		wider,
		func(r Row) bool {
			return short(r) || !single(r) && (r.Paper != nil || r.Expected != nil || r.Note != "")
		},
		func(r Row) bool { return short(r) || !single(r) && (r.Paper != nil || r.Note != "") },
		func(r Row) bool { return short(r) || r.Paper != nil },
	} {
		out = rows.those(want)
		if len(out) <= mostRows && len(out) > len(rows.those(short)) {
			return out, len(rows) - len(out)
		}
	}
	out, first := nil, 0
	for _, r := range rows {
		if wider(r) && first < mostRows || short(r) {
			out, first = append(out, r), first+1
		}
	}
	return out, len(rows) - len(out)
}

// those are the rows that are wanted.
func (rows Rows) those(want func(Row) bool) (out Rows) {
	for _, r := range rows {
		if want(r) {
			out = append(out, r)
		}
	}
	return out
}

// single says whether a row is about a single draw.
func (rows Rows) single() func(Row) bool {
	values := map[string]map[string]bool{}
	for _, r := range rows {
		for k, v := range r.Params {
			if values[k] == nil {
				values[k] = map[string]bool{}
			}
			values[k][fmt.Sprint(v)] = true
		}
	}
	return func(r Row) bool {
		for k := range r.Params {
			if len(values[k]) > mostValues {
				return true
			}
		}
		return false
	}
}

// Results are those of an experiment in a report.
type Results struct {
	Experiment
	Rows   Rows
	Record *Record // nil if there is none
	// Picture is where its picture is, as seen from the report; "" for none.
	Picture string
	// Brief leaves rows out.
	Brief bool
}

// Title of its section.
func (x Results) Title() string {
	if x.Lab == nil && x.Missing == "" { // what can no longer run here was run in the lab
		return x.Name + " (in virtual time)"
	}
	return x.Name
}

// missed is how many requirements are not met.
func (x Results) missed() (n int) {
	for _, r := range x.Rows {
		if r.Short != "" {
			n++
		}
	}
	return n
}

// Line of it in a table of all: name, source, when and how, rows, what is not met.
func (x Results) Line() string {
	when, missed := "", strconv.Itoa(x.missed())
	if x.Record != nil {
		when = x.Record.said()
		if x.Record.Failed != "" {
			missed += ", and it failed"
		}
	}
	return fmt.Sprintf("| [%s](#%s) | %s | %s | %d | %s |\n", x.Name, anchor(x.Title()), x.Source, when, len(x.Rows), missed)
}

// anchor of a title, as Markdown's readers make them.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case strings.ContainsRune("().,:", r):
			return -1
		}
		return r
	}, strings.ToLower(title))
}

// Section writes the part of a report that is about it.
func (x Results) Section(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\n%s: %s.\n\n", x.Title(), x.Source, x.Shows)
	if x.Record != nil {
		fmt.Fprintf(b, "It ran on %s.\n\n", x.Record.said())
		if x.Record.Failed != "" {
			fmt.Fprintf(b, "It failed: %s. The rows are those until then.\n\n", cell(x.Record.Failed))
		}
	}
	if x.Picture != "" {
		fmt.Fprintf(b, "![%s](%s)\n\n", x.Name, x.Picture)
	}
	rows, left := x.Rows, 0
	if x.Brief {
		rows, left = x.Rows.brief()
	}
	if len(rows) > 0 {
		b.WriteString("| params | metric | paper | expected | measured | unit | measured / reference | |\n" +
			"|---|---|---|---|---|---|---|---|\n")
	}
	for _, r := range rows {
		ratio := ""
		for _, of := range []*float64{r.Expected, r.Paper} {
			if of != nil && *of != 0 {
				ratio = fmt.Sprintf("%.3f", r.Measured / *of)
				break
			}
		}
		remark := cell(r.remark())
		if r.Short != "" {
			remark = "**not met**: " + remark
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.params(), r.Metric, Number(r.Paper), Number(r.Expected),
			Number(&r.Measured), r.Unit, ratio, remark)
	}
	if left > 0 {
		fmt.Fprintf(b, "\n%d more rows are in the results, %s.csv.\n", left, x.Name+x.Suffix)
	}
	var p50, p99 float64
	emulated := false
	for _, r := range x.Rows {
		if r.ErrorP99 != nil {
			emulated, p50, p99 = true, max(p50, *r.ErrorP50), max(p99, *r.ErrorP99)
		}
	}
	if emulated {
		fmt.Fprintf(b, "\nThe emulator's own error meanwhile: round trips were longer than set by at most %.3f ms in the middle (p50) and %.3f ms at p99, in the worst of the runs above.\n", p50, p99)
	} else {
		b.WriteString("\nNo link was emulated.\n")
	}
	b.WriteString("\n")
}

// cell is a text that may stand in a table.
func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
}
