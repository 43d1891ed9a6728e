package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) explainCommand() *cobra.Command {
	mode, from := "", ""
	cmd := &cobra.Command{
		Use:   "explain INSTANCE | route SERVICE --from WORKER | scale SERVICE",
		Short: "Explain where an instance was placed, how a worker routes a service, or how many instances run",
		Example: "  verge explain instance/guestbook.front.0\n  verge explain route guestbook.front --from w1\n" +
			"  verge explain scale guestbook.front",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && (args[0] == "route" || args[0] == "scale") {
				return nil
			}
			return oneArg("INSTANCE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[0] == "route" {
				return a.withClient(func(c *client.Client) error {
					r, err := a.routeFrom(cmd, c, args[1], from)
					if err != nil {
						return err
					}
					if mode != "table" {
						return a.encode(mode, r)
					}
					return a.explainRoute(r)
				})
			}
			if len(args) == 2 && args[0] == "scale" {
				return a.withClient(func(c *client.Client) error {
					return a.explainScale(cmd.Context(), c, args[1],
						mode)
				})
			}
			name, err := instanceRef(args)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			i, err := findInstance(cmd.Context(), c, name)
			if err != nil {
				return err
			}
			e, err := c.Instances.Explain(cmd.Context(), i.ID)
			if err != nil {
				return err
			}
			if mode != "table" {
				return a.encode(mode, e)
			}
			return a.explain(e)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "for route: the worker, NAME or CLUSTER/NAME")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) explain(e apiv1.Explanation) error {
	lines := []string{"instance/" + e.Instance}
	for _, x := range e.Decisions {
		d, err := decisionOf(x)
		if err != nil {
			return err
		}
		lines = append(lines, "",
			fmt.Sprintf("%s decided at %s (%s ago) in %s:", x.Tier, a.clock(x.At), a.since(x.At),
				took(time.Duration(d.TookNs))))
		lines = append(lines, decisionLines(d)...)
	}
	if len(e.Notes) > 0 {
		lines = append(lines, "")
	}
	for _, n := range e.Notes {
		lines = append(lines, "note: "+n)
	}
	for _, l := range lines {
		if err := a.printf("%s", clean(l)); err != nil {
			return err
		}
	}
	return nil
}

func decisionOf(x rpc.Explained) (place.Decision, error) {
	var d place.Decision
	data, err := json.Marshal(x.Decision)
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		return d, fmt.Errorf("read the decision of %s: %w", x.Tier, err)
	}
	return d, nil
}

func decisionLines(d place.Decision) []string {
	noun := "worker"
	if d.Kind == place.KindClusters {
		noun = "cluster"
	}
	r := d.Request
	asked := fmt.Sprintf("  asked for    %s: cpu %s, memory %s, disk %s, runtime %s", r.Instance, r.Demand.CPU,
		r.Demand.Memory, r.Demand.Disk, r.Runtime)
	if r.Count > 1 {
		asked += fmt.Sprintf(", %d replicas", r.Count)
	}
	if len(r.Affinity.Cluster) > 0 {
		asked += ", cluster " + strings.Join(r.Affinity.Cluster, " or ")
	}
	if len(r.Affinity.Area) > 0 {
		asked += ", area " + strings.Join(r.Affinity.Area, " or ")
	}
	for _, c := range constraints(r) {
		asked += ", " + c
	}
	lines := append([]string{asked}, adviceLines(r)...)
	lines = append(lines, trafficLines(r.Traffic)...)
	lines = append(lines, turnLines(r.Turn)...)
	lines = append(lines, "  considered   "+wire.Count(d.Candidates, noun))
	left := d.Candidates
	for _, f := range d.Filtered {
		left -= f.Removed
		l := fmt.Sprintf("  removed      %d by %s", f.Removed, f.Name)
		if f.Example != "" {
			l += ", for example " + f.Example
		}
		lines = append(lines, l)
	}
	lines = append(lines, fmt.Sprintf("  left         %d", left))
	if len(d.Ranked) > 0 {
		lines = append(lines, "  ranked by    "+legend(d))
	}
	for i, c := range d.Ranked {
		label := "             "
		if i == 0 {
			label = "  best       "
		}
		lines = append(lines, fmt.Sprintf("%s  %s  score %.4g%s", label, c.ID, c.Score, parts(c.Parts)))
	}
	for i, s := range d.Shares {
		label := "             "
		if i == 0 {
			label = "  shares     "
		}
		lines = append(lines, fmt.Sprintf("%s  %s takes %d", label, s.Cluster, s.Count))
	}
	if d.Kind != place.KindClusters {
		chosen := d.Chosen
		if chosen == "" {
			chosen = "none"
		}
		lines = append(lines, "  chosen       "+chosen)
	}
	if d.Unplaced > 0 {
		lines = append(lines, fmt.Sprintf("  unplaced     %d", d.Unplaced))
	}
	if d.Reason != "" {
		lines = append(lines, "  reason       "+d.Reason)
	}
	return lines
}

// turnLines say why it was the turn of an instance where several contend.
func turnLines(t *turn.Turn) []string {
	if t == nil {
		return nil
	}
	line := fmt.Sprintf("  its turn     namespace %s has %s by weight %d", t.Group, shareText(t.Share, t.Of), t.Weight)
	if t.Groups > 1 {
		line += fmt.Sprintf(", by its weight the least of %d namespaces that wait", t.Groups)
	}
	return []string{line + fmt.Sprintf("; the service has %s", shareText(t.Service, ""))}
}

// shareText is a part of all that there is of a resource.
func shareText(share float64, of string) string {
	if of == "" {
		return fmt.Sprintf("%.3g %%", 100*share)
	}
	return fmt.Sprintf("%.3g %% of the %s", 100*share, of)
}

// adviceLines say what a plugin answered, if one was asked.
func adviceLines(r place.Request) []string {
	a := r.Advice
	if a == nil {
		return nil
	}
	if a.Problem != "" {
		return []string{fmt.Sprintf("  plugin       %s: %s", a.Plugin, a.Problem), "               so rom decided"}
	}
	line := fmt.Sprintf("  plugin       %s answered in %s: ranked %d, rejected %d", a.Plugin,
		took(time.Duration(a.TookNs)), len(a.Ranking), len(a.Rejected))
	if a.Worker != "" {
		line += ", named " + a.Worker
	}
	if a.Reason != "" {
		line += ": " + a.Reason
	}
	return []string{line}
}

// trafficLines say where requests come from, if a replica was placed by that.
func trafficLines(t *place.Traffic) []string {
	if t == nil {
		return nil
	}
	const most = 5
	sum, points := 0.0, slices.SortedStableFunc(slices.Values(t.Points),
		func(a, b place.Entry) int { return cmp.Compare(b.Rate, a.Rate) })
	var at []string
	for i, p := range points {
		if sum += p.Rate; i < most {
			at = append(at, fmt.Sprintf("%.3g at %s", p.Rate, p.At.ID))
		}
	}
	if n := len(points) - most; n > 0 {
		at = append(at, fmt.Sprintf("the rest at %d others", n))
	}
	line := fmt.Sprintf("  requests     %.3g a second: %s", sum, strings.Join(at, ", "))
	if t.Exec > 0 {
		line += fmt.Sprintf("; each takes a replica %s", t.Exec.Std().Round(10*time.Microsecond))
	}
	if len(t.Replicas) == 0 {
		return []string{line, "  answered by  nobody else"}
	}
	return []string{line, "  answered by  replicas on " + strings.Join(slices.Sorted(maps.Keys(t.Replicas)), ", ")}
}

// legend says what the score and its parts mean.
func legend(d place.Decision) string {
	if a := d.Request.Advice; a != nil && a.Problem == "" {
		return "what plugin " + a.Plugin +
			" named for the instance; then score: what it said, the highest first; then same: fewest of the service " +
			"there already; then rom"
	}
	if d.Kind == place.KindClusters {
		return "expected: replicas that fit, as far as known; then same: fewest of the service there; then " +
			"free_share: most room left"
	}
	const same = "same: fewest of the service there already; then "
	by := map[string]string{
		place.LDP: same +
			"score: shortest expected latency in ms to all that it must be near; then rom: least left over of " +
			"what fits worst",
		place.Spread: same +
			"score, highest: least_allocated (share of cpu and memory that is left over) and balanced (how alike " +
			"both are), each of 100",
		place.Throughput:  "score, highest: requests_per_second by the profile of the service; then what fits best",
		place.DRF:         "score, highest: what is free points where the demand does (terms by resource)",
		place.DRFWorstFit: "score, highest: most left over (shares by resource)",
		place.DRFBestFit:  "score, highest: most left over of what is free (terms by resource)",
		place.DRFTightest: "score, lowest: least left over (shares by resource)",
	}
	if d.Request.Traffic != nil {
		by[place.NearestDemand] = "score: shortest mean time of a request in ms that is expected with one more " +
			"replica there; then " + same + "rom: least left over of what fits worst"
	}
	if l := by[d.Request.Scheduler]; l != "" {
		return l
	}
	if d.Request.Demand.VGPUs > 0 || d.Request.Demand.VTPUs > 0 {
		return same + "score: least goes to waste of accelerators (x/(1+x), x: how many would be left without cpu, " +
			"memory or disk, or these without accelerators, and 1/32 of all that would be left)"
	}
	return same + "score: least left over of what fits worst (cpu, memory, disk: share that is left over; +1 with " +
		"accelerators that are not asked for)"
}

// constraints are those of a request beyond what the descriptor of every service
// has.
func constraints(r place.Request) []string {
	var out []string
	list := func(what string, names []string) {
		if len(names) > 0 {
			out = append(out, what+" "+strings.Join(names, " or "))
		}
	}
	list("architecture", r.Architecture)
	for _, k := range slices.Sorted(maps.Keys(r.Affinity.Labels)) {
		out = append(out, "label "+k+"="+r.Affinity.Labels[k])
	}
	if l := r.Location; l != nil {
		out = append(out, fmt.Sprintf("within %s of %s", l.Radius, api.Point{l.Latitude, l.Longitude}))
	}
	if n := len(r.Affinity.Polygon); n > 0 {
		out = append(out, fmt.Sprintf("inside a polygon of %d corners", n))
	}
	list("not cluster", r.AntiAffinity.Cluster)
	list("not area", r.AntiAffinity.Area)
	for _, k := range slices.Sorted(maps.Keys(r.AntiAffinity.Labels)) {
		out = append(out, "not label "+k+"="+r.AntiAffinity.Labels[k])
	}
	list("not beside", r.AntiAffinity.Service)
	out = append(out, devicesAsked(r)...)
	list("host path", r.HostPaths)
	if len(r.Data) > 0 {
		out = append(out, "objects "+strings.Join(r.Data, ", "))
	}
	for _, t := range r.Latency {
		what := "near " + t.To
		if t.Wish {
			what += " (a wish)"
		}
		if t.Wish && t.Unknown != "" {
			what += ", whose state is unknown: " + t.Unknown
		}
		if t.Max > 0 {
			what += fmt.Sprintf(" (%s)", t.Max)
		}
		if t.Distance > 0 {
			what += fmt.Sprintf(" (%s)", t.Distance)
		}
		if t.Free != "" {
			what += ", which does not count yet: " + t.Free
		}
		out = append(out, what)
	}
	if r.Overlay != "" {
		out = append(out, "in the service network, which "+r.Overlay+" needs")
	}
	if r.Pinned != "" {
		out = append(out, "on "+r.Pinned+", which has its volume")
	}
	return out
}

// parts are what a score is made of, in the order of their names.
func parts(m map[string]float64) string {
	if len(m) == 0 {
		return ""
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s %.4g", k, m[k]))
	}
	return "  (" + strings.Join(all, ", ") + ")"
}
