package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// planAsks is how many workers are asked at a time.
const planAsks = 16

// routePlanned is a policy and what it would do.
type routePlanned struct {
	Policy api.Policy `json:"policy"`
	// Now: it is the one that is in use.
	Now bool `json:"now,omitempty"`
	// MeanRTT of all requests whose distance is known; Unknown is the share of the others.
	MeanRTT api.Duration `json:"mean_rtt"`
	Unknown float64      `json:"unknown"`
	// Imbalance is the standard deviation of the instances' shares; Most the largest
	// share, Even what each would have.
	Imbalance float64 `json:"imbalance"`
	Most      float64 `json:"most"`
	Even      float64 `json:"even"`
}

func (a *app) routePlanCommand() *cobra.Command {
	var p api.Policy
	var localRTT time.Duration
	var from []string
	mode := ""
	cmd := &cobra.Command{
		Use: "plan SERVICE", Short: "Predict what another routing policy would do", Args: oneArg("SERVICE"),
		Long: `Predict what another routing policy would do to a service: the mean round trip of its
requests, and how unevenly its instances would get them (the standard deviation of
their shares).

All workers (or those of --from) are asked for their distances now. The prediction
assumes requests as in the last minute or, if there were none, equally from all
workers. Nothing changes. Without --alpha, proximity is shown with several values.`,
		Example: "  verge route plan shop.web --alpha 0.8\n  verge route plan shop.web --policy closest --from edge/w1",
		RunE: func(cmd *cobra.Command, args []string) error {
			p.LocalRTT = api.Duration(localRTT)
			policies := []api.Policy{p}
			if !cmd.Flags().Changed("alpha") && p.Name == api.PolicyProximity {
				policies = nil
				for _, alpha := range []float64{0, 0.25, 0.5, 0.75, 1} {
					p.Alpha = alpha
					policies = append(policies, p)
				}
			}
			for i := range policies {
				if policies[i].Name == api.PolicyProximity { // so that alpha 0 is no silence
					policies[i].Beta = cmp.Or(policies[i].Beta, api.DefaultBeta)
				}
				policies[i] = policies[i].Filled()
				if err := policies[i].Validate(); err != nil {
					return usageError(cmd, "%v", err)
				}
			}
			return a.withClient(func(c *client.Client) error {
				return a.routePlan(cmd.Context(), c, args[0], from,
					policies, mode)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Name, "policy", api.PolicyProximity, "the policy to predict")
	f.Float64Var(&p.Alpha, "alpha", 0, "of proximity: 0 (even) to 1 (near)")
	f.Float64Var(&p.Beta, "beta", 0, "of proximity: how steeply the share falls with the distance (default 0.5)")
	f.StringVar(&p.Decay, "decay", "", "of proximity: inverse, power or exponential (default)")
	f.DurationVar(&localRTT, "localrtt", 0, "of proximity: the assumed round trip to instances on the same worker")
	f.StringVar(&p.Fallback, "fallback", "", "of local: the policy if the worker has no instance (default closest)")
	f.IntVar(&p.Ordinal, "ordinal", 0, "of instance: the number of the replica")
	f.StringSliceVar(&from, "from", nil, "only requests from these workers: NAME or CLUSTER/NAME")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) routePlan(ctx context.Context, c *client.Client, service string, from []string, policies []api.Policy,
	mode string) error {
	appName, name, err := routedService(service)
	if err != nil {
		return err
	}
	var workers []rpc.WorkerView
	for _, s := range from {
		w, err := workerNamed(ctx, c, s)
		if err != nil {
			return err
		}
		workers = append(workers, w)
	}
	if len(from) == 0 {
		if workers, err = c.Workers.List(ctx); err != nil {
			return err
		}
	}
	reports := askRoutes(ctx, c, workers, appName, name)
	sources, current := a.sourcesOf(reports)
	if len(sources) == 0 {
		why := "there is none"
		if len(reports) > 0 {
			why = reports[0].Problem
		}
		return &userError{what: "no worker could be asked", why: why,
			next: "verge get workers; with a context of the cluster its workers can be asked"}
	}
	var rows []routePlanned
	add := func(p api.Policy, now bool) error {
		got, err := route.Predict(p, sources)
		if err != nil {
			return err
		}
		rows = append(rows, routePlanned{Policy: p, Now: now, MeanRTT: api.Duration(got.Mean.Round(time.Microsecond)),
			Unknown: rounded(got.Unknown), Imbalance: rounded(got.Imbalance), Most: rounded(got.Most),
			Even: rounded(got.Even)})
		return nil
	}
	if err := add(current, true); err != nil {
		return err
	}
	for _, p := range policies {
		if p != current {
			if err := add(p, false); err != nil {
				return err
			}
		}
	}
	return planColumns().print(a, mode, rows, false)
}

// rounded keeps what is meant: shares to a hundredth of a percent.
func rounded(x float64) float64 { return float64(int64(x*10_000+0.5)) / 10_000 }

// askRoutes asks workers, some at a time; who could not be asked says why.
func askRoutes(ctx context.Context, c *client.Client, workers []rpc.WorkerView, app, service string) []rpc.RouteReport {
	out := make([]rpc.RouteReport, len(workers))
	slots := make(chan struct{}, planAsks)
	var all sync.WaitGroup
	for i, w := range workers {
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			r, err := c.Workers.Route(ctx, w.Cluster, w.Name, app, service)
			if err != nil {
				r = rpc.RouteReport{Cluster: w.Cluster, Worker: w.Name, Problem: firstLine(err)}
			}
			out[i] = r
		})
	}
	all.Wait()
	return out
}

// sourcesOf are where requests come from, by the last minute or else equally, and
// the policy that is in use.
func (a *app) sourcesOf(reports []rpc.RouteReport) (sources []route.From, current api.Policy) {
	total := 0
	for _, r := range reports {
		if r.Problem != "" {
			a.notef("without %s/%s: %s", r.Cluster, r.Worker, clean(r.Problem))
			continue
		}
		from := route.From{Name: r.Cluster + "/" + r.Worker, View: viewOf(r)}
		for _, e := range r.Endpoints {
			from.Share += float64(e.Recent)
			total += e.Recent
		}
		current = r.Policy.Filled()
		sources = append(sources, from)
	}
	if total == 0 {
		for i := range sources {
			sources[i].Share = 1
		}
	}
	switch {
	case len(sources) == 0:
	case total == 0:
		a.notef("no requests in the last minute: taken to come equally from %s", wire.Count(len(sources), "worker"))
	default:
		a.notef("%s of the last minute, from %s", wire.Count(total, "request"), wire.Count(len(sources), "worker"))
	}
	return sources, current
}

func planColumns() listing[routePlanned] {
	type view = routePlanned
	return listing[view]{kind: "policy", name: func(v view) string { return v.Policy.Name }, columns: []column[view]{
		{name: "policy", cell: func(v view) cell {
			if v.Now {
				return text(v.Policy.String() + " (now)")
			}
			return text(v.Policy.String())
		}},
		{name: "mean rtt", cell: func(v view) cell { return text(milliseconds(time.Duration(v.MeanRTT))) }},
		{name: "imbalance", cell: func(v view) cell { return text(percentOf(v.Imbalance)) }},
		{name: "most", cell: func(v view) cell { return text(percentOf(v.Most)) }},
		{name: "even", cell: func(v view) cell { return text(percentOf(v.Even)) }},
		{name: "message", cell: func(v view) cell {
			if v.Unknown == 0 {
				return text("")
			}
			return problem("without " + percentOf(v.Unknown) + " whose distance is not known")
		}},
	}}
}

// explainRoute says why a worker routes a service as it does.
func (a *app) explainRoute(r rpc.RouteReport) error {
	lines := []string{
		fmt.Sprintf("service/%s from worker/%s/%s", r.Key(), r.Cluster, r.Worker),
		"  policy       " + r.Policy.String(),
		"  rule         " + ruleInWords(r.Policy),
	}
	counts := map[string]int{}
	for _, e := range r.Endpoints {
		counts[e.State]++
	}
	usable := "ok"
	for _, s := range []string{"ok", "suspect", "ejected"} {
		if counts[s] > 0 {
			usable = s
			break
		}
	}
	lines = append(lines, fmt.Sprintf("  endpoints    %d, of which %d are %s", len(r.Endpoints), counts[usable],
		usable))
	if s := sizesWord(r); s != "" {
		lines = append(lines, "  sizes        "+s)
	}
	byWeight := r.Policy.Name == api.PolicyWeighted || r.Policy.Name == api.PolicyBilliard
	for _, e := range r.Endpoints {
		var why string
		switch {
		case e.State != usable:
			why = "left out: " + e.State
			if e.Why != "" {
				why += ", " + e.Why
			}
		case byWeight && e.Serves > 0:
			why = fmt.Sprintf("its worker does %.4g/s with %d of these, %s; weight %.1f", e.Serves,
				sharing(r.Endpoints, e), weightSource(e.ServesBy), e.Weight)
		case byWeight && e.CPU == 0:
			why = "the processors of its worker are unknown: it counts as the median"
		case byWeight:
			why = fmt.Sprintf("its worker has %s processors for %d of these", e.CPU, sharing(r.Endpoints, e))
		case e.Local:
			why = "on the same worker"
		case e.Source == "":
			why = "its distance is unknown"
		default:
			why = fmt.Sprintf("%s away, %s %s ago", milliseconds(time.Duration(e.RTT)), e.Source, ageOf(e.AgeSeconds))
		}
		if l := lineWord(e); l != "" {
			why += "; its line carries " + l
		}
		lines = append(lines, fmt.Sprintf("  %-12s %s at %s/%s: %s", percentOf(e.Share), e.Instance, e.Cluster,
			e.Worker, why))
	}
	for _, l := range lines {
		if err := a.printf("%s", clean(strings.TrimRight(l, " "))); err != nil {
			return err
		}
	}
	return nil
}

// sharing is how many endpoints are on the worker of one.
func sharing(list []rpc.RouteEndpoint, e rpc.RouteEndpoint) (n int) {
	for _, o := range list {
		if o.Cluster == e.Cluster && o.Worker == e.Worker {
			n++
		}
	}
	return n
}

// weightSource says where it is known from what a worker does.
func weightSource(by string) string {
	switch by {
	case rpc.WeightProfile:
		return "as it was measured"
	case rpc.WeightOld:
		return "as it was measured with an older program"
	case rpc.WeightKind:
		return "like those of its kind that were measured"
	}
	return "by its processors and what others were measured to do"
}

// ruleInWords says what a policy does.
func ruleInWords(p api.Policy) string {
	switch p.Name {
	case api.PolicyClosest:
		return "those on the same worker first, else the nearest by measurement, else the nearest by estimate"
	case api.PolicyLocal:
		return "those on the same worker equally; if there are none, " + p.Fallback
	case api.PolicyProximity:
		return fmt.Sprintf("(1-%g)/N + %g*f(l)/sum, f %s over the round trip l in ms; what is not known counts "+
			"as the median", p.Alpha, p.Alpha, p.Decay)
	case api.PolicyWeighted:
		return "by what each worker was measured to do (verge profile), else by its processors, divided among the " +
			"replicas there"
	case api.PolicyBilliard:
		return "in turn, as often as its weight says: by what its worker was measured to do (verge profile), else by " +
			"its processors"
	case api.PolicyInstance:
		return fmt.Sprintf("replica %d alone", p.Ordinal)
	case api.PolicyFastest:
		return "where it costs least: the way there and back for the request's size, its time there, and the queue"
	case api.PolicyLeastConnections:
		return "the fewest requests in flight from here"
	case api.PolicyTwoChoices:
		return "of two random ones, the one with fewer requests in flight from here"
	case api.PolicyLeastResponse:
		return "the shortest queue for its capacity: (queue + 1) / capacity"
	case api.PolicyRandom:
		return "each equally, at random"
	}
	return "each in turn"
}
