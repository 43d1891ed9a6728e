package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Report writes a report of the results in a directory and returns its name: to the file to,
// briefly, with copies of the pictures in a directory beside it that has its name; or all of them
// to report.md in the directory itself, where to is "".
func Report(dir, to string) (string, error) {
	found, missing, err := results(dir)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s has no results: verge lab run NAME --dir %s", dir, dir)
	}
	pictures := ""
	if to != "" {
		var ok bool
		if pictures, ok = strings.CutSuffix(to, ".md"); !ok {
			return "", fmt.Errorf("write the report to %s: give it a name that ends in .md (its pictures go to a directory with "+
				"that name without .md)", to)
		}
		if err := copyPictures(found, dir, pictures); err != nil {
			return "", err
		}
	}
	for i := range found {
		x := &found[i]
		x.Brief = to != ""
		if x.Picture != "" && to != "" {
			x.Picture = filepath.Base(pictures) + "/" + x.Picture
		}
	}
	file := to
	if file == "" {
		file = filepath.Join(dir, "report.md")
	}
	return file, os.WriteFile(file, []byte(page(found, missing)), 0o644)
}

// forms are all experiments, those of two forms twice.
func forms() (out []experiment.Experiment) {
	for _, x := range All() {
		out = append(out, x)
		if v, err := x.InVirtualTime(); err == nil && v.Suffix != "" {
			out = append(out, v)
		}
	}
	return out
}

// results are those in a directory, and lines about experiments that have none.
func results(dir string) (found []experiment.Results, missing []string, err error) {
	for _, x := range forms() {
		name := filepath.Join(dir, x.Name+x.Suffix)
		data, err := os.ReadFile(name + ".json")
		switch {
		case errors.Is(err, os.ErrNotExist) && x.Missing != "":
			missing = append(missing, fmt.Sprintf("| %s | %s | %s |\n", x.Name, x.Source, x.Missing))
			continue
		case errors.Is(err, os.ErrNotExist):
			if x.Suffix == "" { // the other form of one that has two may be left out
				missing = append(missing, fmt.Sprintf("| %s | %s | it was not run |\n", x.Name, x.Source))
			}
			continue
		}
		r := experiment.Results{Experiment: x}
		if err == nil {
			err = json.Unmarshal(data, &r.Rows)
		}
		if err == nil {
			r.Record, err = x.ReadRecord(dir)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("results of %s: %w", x.Name, err)
		}
		if _, err := os.Stat(name + ".svg"); err == nil {
			r.Picture = x.Name + x.Suffix + ".svg"
		}
		found = append(found, r)
	}
	return found, missing, nil
}

// copyPictures to a directory, in which there are none of other experiments then.
func copyPictures(found []experiment.Results, from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("pictures of the report: %w", err)
	}
	var err error
	for _, x := range forms() {
		if rerr := os.Remove(filepath.Join(to, x.Name+x.Suffix+".svg")); !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	for _, x := range found {
		if x.Picture == "" {
			continue
		}
		b, rerr := os.ReadFile(filepath.Join(from, x.Picture))
		if rerr == nil {
			rerr = os.WriteFile(filepath.Join(to, x.Picture), b, 0o644)
		}
		err = errors.Join(err, rerr)
	}
	if err != nil {
		return fmt.Errorf("pictures of the report: %w", err)
	}
	return nil
}

// page is the text of a report.
func page(found []experiment.Results, missing []string) string {
	var b strings.Builder
	b.WriteString("<!-- Written by `verge lab report`. -->\n# Report of the lab\n\n")
	b.WriteString("What experiments measured, beside what the papers say (`paper`) and what was computed beforehand " +
		"(`expected`). Rows with a bound name it, and where it is from. Each experiment has the date, the length and the machine's " +
		"load of its own run.\n\n")
	var machines []string
	for _, x := range found {
		if x.Record != nil && !slices.Contains(machines, x.Record.Machine) {
			machines = append(machines, x.Record.Machine)
		}
	}
	if len(machines) > 0 {
		fmt.Fprintf(&b, "Measured on: %s.\n\n", strings.Join(machines, "; "))
	}
	b.WriteString("| experiment | paper | run (UTC) | rows | requirements not met |\n|---|---|---|--:|---|\n")
	for _, x := range found {
		b.WriteString(x.Line())
	}
	b.WriteString("\n")
	for _, x := range found {
		x.Section(&b)
	}
	if len(missing) > 0 {
		b.WriteString("## Not run\n\n| experiment | paper | why |\n|---|---|---|\n" + strings.Join(missing, ""))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
