package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// explainScale says how many instances of a service run, and what that was decided
// from.
func (a *app) explainScale(ctx context.Context, c *client.Client, service, mode string) error {
	app, name, err := routedService(service)
	if err != nil {
		return err
	}
	list, err := c.Services.ExplainScale(ctx, app, name)
	if err != nil {
		return err
	}
	if mode != "table" {
		return a.encode(mode, list)
	}
	if len(list) == 0 {
		return a.printf("service/%s.%s\n\nno cluster has any of it%s", app, name, clean(missing(ctx, c, app, name)))
	}
	lines := []string{"service/" + app + "." + name}
	for _, r := range list {
		lines = append(lines, "", "cluster "+r.Cluster)
		lines = append(lines, a.scaleLines(r)...)
	}
	for _, l := range lines {
		if err := a.printf("%s", clean(l)); err != nil {
			return err
		}
	}
	return nil
}

// missing is why no cluster has any of a service, as far as the tier that is asked knows.
func missing(ctx context.Context, c *client.Client, app, name string) string {
	view, err := c.Applications.Get(ctx, app)
	if err != nil {
		return "" // what was asked for is said
	}
	for _, s := range view.Services {
		if s.Name == name && s.Message != "" {
			return ": " + s.Message
		}
	}
	return ""
}

func (a *app) scaleLines(r rpc.ScaleReport) []string {
	if r.Problem != "" {
		return []string{"  not asked    " + r.Problem}
	}
	runs := fmt.Sprintf("  runs         %d of %d that are placed", r.Awake, r.Placed)
	if r.Awake < r.Placed {
		runs += "; the others sleep and start with the next request"
	}
	lines := []string{runs}
	switch {
	case r.Max == 0:
		lines = append(lines, "  may run      none: requests from here are answered in other clusters")
	case r.Fixed:
		lines = append(lines, fmt.Sprintf("  may run      %d, whatever the demand", r.Max))
	default:
		lines = append(lines, fmt.Sprintf("  may run      %d to %d", r.Min, r.Max))
	}
	if r.Trouble != "" {
		lines = append(lines, "  trouble      "+r.Trouble)
	}
	lines = append(lines, overflowLines(r)...)
	switch {
	case r.Now != nil:
		lines = append(lines, a.decidedLines("now", r.Now)...)
		for i, x := range r.Now.Replicas {
			label := "             "
			if i == 0 {
				label = "    replicas "
			}
			lines = append(lines, fmt.Sprintf("%s  %s does %s, works %s on a request, %d wait", label, x.Instance,
				able(x.RPS), lasting(x.Exec.Std()), x.Waiting))
		}
	case r.Asked:
		lines = append(lines, "  now          requests come in; a decision follows within seconds")
	default:
		lines = append(lines, "  now          no requests lately (those of the last seconds are not counted yet)")
	}
	if r.Last != nil && (r.Now == nil || !r.Last.At.Equal(r.Now.At)) {
		lines = append(lines, a.decidedLines("last change", r.Last)...)
	}
	return lines
}

// overflowLines say what runs here for others, and elsewhere for requests that enter
// here.
func overflowLines(r rpc.ScaleReport) (lines []string) {
	told := 0
	for _, g := range r.Gives {
		if g.To == r.Cluster {
			told += g.N
			lines = append(lines, fmt.Sprintf("  for others   %d of the demand of cluster %s, because %s", g.N, g.From,
				g.Why))
		}
	}
	if r.Extra > told {
		lines = append(lines, fmt.Sprintf("  for others   %d, for requests that enter where there is no room",
			r.Extra-told))
	}
	if r.Short > 0 {
		short := fmt.Sprintf("  no room      for %d more that are wanted here", r.Short)
		if r.Full != "" {
			short += ": " + r.Full
		}
		lines = append(lines, short)
	}
	for _, g := range r.Gives {
		if g.From == r.Cluster {
			lines = append(lines, fmt.Sprintf("  elsewhere    %d of this demand run in cluster %s, because %s", g.N,
				g.To, g.Why))
		}
	}
	if r.Unserved != "" {
		lines = append(lines, "  nowhere      "+r.Unserved)
	}
	return lines
}

// decidedLines are a decision and its inputs.
func (a *app) decidedLines(label string, d *rpc.ScaleDecision) []string {
	lines := []string{
		fmt.Sprintf("  %-12s %d wanted, %d before, %s ago: %s", label, d.Want, d.From, a.since(d.At), d.Why),
		fmt.Sprintf("    asked      %s, expected %s; %d wait", perSecond(d.Rate), perSecond(d.Predicted), d.Waiting),
		fmt.Sprintf("    one does   %s, works %s on a request, starts in %s", able(d.RPS), lasting(d.Exec.Std()),
			lasting(d.StartUp.Std())),
	}
	if d.Refused > 0 {
		lines[1] += ", " + perSecond(d.Refused) + " are refused"
	}
	need := fmt.Sprintf("    so         %d for the rate, %d for those that wait", d.ForRate, d.ForQueue)
	if d.SLO > 0 {
		need += ", to answer within " + d.SLO.String()
	}
	if d.Less > 0 {
		need += fmt.Sprintf("; fewer would do since %d epochs", d.Less)
	}
	return append(lines, need)
}

func perSecond(rate float64) string {
	if rate == 0 {
		return "0/s"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", rate), ".0") + "/s"
}

// able is what a replica can do, or that it is not known.
func able(rps float64) string {
	if rps <= 0 {
		return "an unknown number"
	}
	return perSecond(rps)
}

// lasting is a measured time, or that it is not known.
func lasting(d time.Duration) string {
	if d <= 0 {
		return "an unknown time"
	}
	return took(d)
}
