package experiments

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Report writes report.md of the results in a directory and returns its name.
func Report(dir string) (string, error) {
	var b strings.Builder
	b.WriteString("# Experiments\n\n")
	found := 0
	var missing []string
	var forms []experiment.Experiment
	for _, x := range All() {
		forms = append(forms, x)
		if v, err := x.InVirtualTime(); err == nil && v.Suffix != "" {
			forms = append(forms, v)
		}
	}
	for _, x := range forms {
		if x.Missing != "" {
			missing = append(missing, fmt.Sprintf("| %s | %s | %s |\n", x.Name, x.Source, x.Missing))
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, x.Name+x.Suffix+".json"))
		if errors.Is(err, os.ErrNotExist) {
			missing = append(missing, fmt.Sprintf("| %s | %s | it was not run: verge %s run %s --dir %s |\n", x.Name+x.Suffix, x.Source, map[bool]string{false: "lab", true: "sim"}[x.Lab == nil], x.Name, dir))
			continue
		}
		var rows experiment.Rows
		if err == nil {
			err = json.Unmarshal(data, &rows)
		}
		if err != nil {
			return "", fmt.Errorf("results of %s: %w", x.Name, err)
		}
		found++
		x.Section(&b, dir, rows)
	}
	if found == 0 {
		return "", fmt.Errorf("%s has no results: verge lab run NAME --dir %s", dir, dir)
	}
	if len(missing) > 0 {
		b.WriteString("## Not run\n\n| experiment | paper | why |\n|---|---|---|\n" + strings.Join(missing, ""))
	}
	file := filepath.Join(dir, "report.md")
	return file, os.WriteFile(file, []byte(b.String()), 0o644)
}
