package cli

import (
	"fmt"

	"github.com/verge-edge/verge/internal/wire"
)

// tallies writes what was counted of each cluster and of each application.
func (a *app) tallies(v wire.StatusView) error {
	var lines []string
	for _, c := range v.Clusters {
		if c.Tally == nil {
			continue
		}
		line := fmt.Sprintf("cluster/%s: %s", c.Name, c.Tally)
		if since := a.tallySince(c.SinceAway); since != "" {
			line += "; since it was away, " + since
		}
		lines = append(lines, line)
	}
	for _, app := range v.Apps {
		lines = append(lines, fmt.Sprintf("application/%s: %s", app.Name, app.Tally))
	}
	if len(lines) == 0 {
		return nil
	}
	if err := a.section("Restarts and changes"); err != nil {
		return err
	}
	for _, l := range lines {
		if err := a.printf("%s", clean(l)); err != nil {
			return err
		}
	}
	return nil
}

// tallySince is "5m ago: 0 restarts, 3 changes applied", "" for nil.
func (a *app) tallySince(t *wire.TallySince) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s ago: %s", a.since(t.At), t.Tally)
}

func tallyOf(t *wire.Tally) string {
	if t == nil {
		return ""
	}
	return t.String()
}
