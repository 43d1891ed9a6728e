package promises

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/placement"
)

// Placed is what schedulers make of an infrastructure.
type Placed []PlacedBy

// PlacedBy is what one of them makes of it. Shares are of 1; what does not apply is nil.
type PlacedBy struct {
	Scheduler string `json:"scheduler"`
	// Form is "flat", all workers in one cluster, or "clusters".
	Form      string   `json:"form"`
	Instances int      `json:"instances"`
	Placed    int      `json:"placed"`
	Violated  *float64 `json:"violated"`
	Expected  *float64 `json:"expected_ms"`
	Unfair    float64  `json:"unfair_cores"`
	Fragments float64  `json:"fragments_cpu"`
	Empty     float64  `json:"empty_workers"`
	Decision  float64  `json:"decision_us"`
	// Why are the reasons for what was not placed, with how many services.
	Why []string `json:"why,omitempty"`
}

// Table for people.
func (p Placed) Table() (head []string, rows [][]string) {
	head = []string{"SCHEDULER", "FORM", "PLACED", "VIOLATED", "REQUEST MS", "UNFAIR CORES", "CPU LOST", "EMPTY", "DECISION US", "WHY NOT ALL"}
	share := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(100**v, 'f', 1, 64) + "%"
	}
	for _, r := range p {
		why := ""
		if len(r.Why) > 0 {
			why = strings.TrimSpace(r.Why[0])
		}
		rows = append(rows, []string{
			r.Scheduler, r.Form, fmt.Sprintf("%d/%d", r.Placed, r.Instances), share(r.Violated), experiment.Number(r.Expected), experiment.Number(&r.Unfair),
			share(&r.Fragments), share(&r.Empty), experiment.Number(&r.Decision), why,
		})
	}
	return head, rows
}

// Place asks schedulers, by default all, to place what a file or one of the data
// describes: with all workers in one cluster, and, where there are several, in these.
func Place(ctx context.Context, name string, schedulers []string, seed uint64) (Placed, error) {
	s, err := placement.Load(name, seed)
	if err != nil {
		return nil, err
	}
	all := placement.Schedulers()
	var known []string
	for _, by := range all {
		known = append(known, by.Name)
	}
	for _, want := range schedulers {
		if !slices.Contains(known, want) {
			return nil, fmt.Errorf("there is no scheduler %q: there are %s", want, strings.Join(known, ", "))
		}
	}
	var out Placed
	for _, by := range all {
		if len(schedulers) > 0 && !slices.Contains(schedulers, by.Name) {
			continue
		}
		r, err := placement.Run(ctx, s, by)
		if err != nil {
			return nil, err
		}
		out = append(out, placedBy(r, "flat"))
		if by.Joint() || !s.Clusters() {
			continue
		}
		if r, err = placement.RunTiered(ctx, s, by); err != nil {
			return nil, err
		}
		out = append(out, placedBy(r, "clusters"))
	}
	return out, nil
}

func placedBy(r *placement.Result, form string) PlacedBy {
	q := placement.Measure(r)
	some := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		v = experiment.Rounded(v)
		return &v
	}
	return PlacedBy{
		Scheduler: r.Scheduler.Name, Form: form, Instances: r.Wanted, Placed: r.Placed,
		Violated: some(q.Violated), Expected: some(q.Expected), Unfair: experiment.Rounded(q.Unfair[0]), Fragments: experiment.Rounded(q.Fragments[0]),
		Empty: experiment.Rounded(q.Empty), Decision: experiment.Rounded(float64(r.PerDecision().Nanoseconds()) / 1e3), Why: r.Reasons(),
	}
}
