package experiment

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, x.Name+x.Suffix+end), []byte(text), 0o644); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	return nil
}

// Section writes the part of a report that is about an experiment.
func (x Experiment) Section(b *strings.Builder, dir string, rows Rows) {
	title := x.Name
	if x.Lab == nil {
		title += " (in virtual time)"
	}
	fmt.Fprintf(b, "## %s\n\n%s: %s.\n\n", title, x.Source, x.Shows)
	if _, err := os.Stat(filepath.Join(dir, x.Name+x.Suffix+".svg")); err == nil {
		fmt.Fprintf(b, "![%s](%s.svg)\n\n", x.Name, x.Name+x.Suffix)
	}
	var p50, p99 float64
	emulated := false
	b.WriteString("| params | metric | paper | expected | measured | unit | measured / reference | |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		ratio := ""
		for _, of := range []*float64{r.Expected, r.Paper} {
			if of != nil && *of != 0 {
				ratio = fmt.Sprintf("%.3f", r.Measured / *of)
				break
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.params(), r.Metric, Number(r.Paper), Number(r.Expected), Number(&r.Measured), r.Unit, ratio, cmp.Or(r.Short, r.Note))
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
