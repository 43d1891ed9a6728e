package cli

import (
	"fmt"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// counts prints the restarts and changes of each cluster and application.
func (a *app) counts(v apiv1.StatusView) error {
	var lines []string
	for _, c := range v.Clusters {
		if c.Tally == nil {
			continue
		}
		line := fmt.Sprintf("cluster/%s: %s", c.Name, c.Tally)
		if since := a.countsSince(c.SinceAway); since != "" {
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

// countsSince is "5m ago: 0 restarts, 3 changes applied", "" for nil.
func (a *app) countsSince(t *apiv1.CountersSince) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("%s ago: %s", a.since(t.At), t.Counters)
}

func restartCounts(t *wire.Counters) string {
	if t == nil {
		return ""
	}
	return t.String()
}
