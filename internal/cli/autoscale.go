package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/chart"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim/autoscale"
	"github.com/verge-edge/verge/internal/sim/trace"
)

// Bounds of a replay.
const (
	maxReplayed = 7 * 24 * time.Hour
	maxRequests = 20e6
	maxReplicas = 10000
	// maxReplayWork is in looks at a replica; an algorithm takes a minute for it.
	maxReplayWork = 5e9
	// replayQueue is the default of queue_max.
	replayQueue = 100
)

// replay is what is to be played.
type replay struct {
	set         autoscale.Setting
	row         int
	step        time.Duration
	speed, mean float64
	only        []string
	plot, mode  string
	file        string
	rates       []float64
	algorithms  []autoscale.Algorithm
	requests    float64
}

// replayed is what came of a trace.
type replayed struct {
	// Requests that are expected, by the trace; what comes is drawn by chance.
	Requests float64 `json:"requests"`
	// Seconds that were played, and the mean and the highest rate in one of them.
	Seconds  int     `json:"seconds"`
	MeanRate float64 `json:"mean_rate"`
	MaxRate  float64 `json:"max_rate"`
	// Ideal are the replica-seconds that would have done, had all been known before and
	// had starts taken no time.
	Ideal   float64         `json:"ideal_pod_seconds"`
	Results []replayOutcome `json:"results"`

	exact bool // for programs to read, not people
	each  map[string][]float64
}

type replayOutcome struct {
	Algorithm  autoscale.Algorithm `json:"algorithm"`
	Requests   int                 `json:"requests"`
	WithinSLO  float64             `json:"within_slo"`
	P50        api.Duration        `json:"p50"`
	P99        api.Duration        `json:"p99"`
	PodSeconds int                 `json:"pod_seconds"`
	MostPods   int                 `json:"most_pods"`
	ColdStarts int                 `json:"cold_starts"`
	Refused    int                 `json:"refused"`
}

// Table implements Sheet.
func (r replayed) Table() (head []string, rows [][]string) {
	head = []string{"ALGORITHM", "WITHIN SLO", "P99", "POD-SECONDS", "MOST PODS", "COLD STARTS", "REFUSED"}
	if r.exact {
		head = []string{"algorithm", "requests", "within_slo", "p50_ms", "p99_ms", "pod_seconds", "most_pods",
			"cold_starts", "refused"}
	}
	for _, x := range r.Results {
		end := []string{strconv.Itoa(x.PodSeconds), strconv.Itoa(x.MostPods), strconv.Itoa(x.ColdStarts),
			strconv.Itoa(x.Refused)}
		row := []string{string(x.Algorithm), fmt.Sprintf("%.2f %%", 100*x.WithinSLO),
			x.P99.Std().Round(time.Millisecond).String()}
		if r.exact {
			ms := func(d api.Duration) string { return fmt.Sprintf("%.3f", d.Std().Seconds()*1000) }
			row = []string{string(x.Algorithm), strconv.Itoa(x.Requests), fmt.Sprintf("%.6f", x.WithinSLO), ms(x.P50),
				ms(x.P99)}
		}
		rows = append(rows, append(row, end...))
	}
	return head, rows
}

// Note says what was played.
func (r replayed) Note() string {
	return fmt.Sprintf("%.0f requests in %s: %.1f/s on average, %.1f/s at most; %.0f pod-seconds would do if "+
		"everything were known before",
		r.Requests, time.Duration(r.Seconds)*time.Second, r.MeanRate, r.MaxRate, r.Ideal)
}

func (a *app) autoscaleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "autoscale", Short: "Try autoscaling on past requests",
		Long: `Try autoscaling on past requests. It needs no server: requests and replicas are
simulated, and the decisions are those of the running system. verge explain scale
shows the decisions for a running service.`,
		Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(a.autoscaleReplayCommand())
	return cmd
}

func (a *app) autoscaleReplayCommand() *cobra.Command {
	r := replay{set: autoscale.Setting{QueueMax: replayQueue}}
	cmd := &cobra.Command{
		Use: "replay TRACE", Short: "Compare autoscalers on the requests of a trace",
		Args: oneArg("a trace file"),
		Long: `Show what each autoscaler would have done with the requests of a trace: Verge's, the
same without prediction, Knative's by concurrency and by requests per second, and
Kubernetes' horizontal one. Every request passes through the queues and slots of
identical replicas.

The trace is a file with calls per minute (or per --step), one number per line; or
lines of a time and a number, which holds until the next time; or a table of
functions with the columns 1, 2, 3, …, of which --row is one.`,
		Example: "  verge autoscale replay calls.csv --exec 40ms --concurrency 4 --slo 300ms\n" +
			"  verge autoscale replay calls.csv --speed 60 --mean 200 --plot calls.svg\n" +
			"  verge autoscale replay functions.csv --row 26 --only verge --only kpa-rps -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.file = args[0]
			if err := r.check(cmd); err != nil {
				return err
			}
			return a.replay(cmd.Context(), r)
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&r.row, "row", 0, "which function of a table, from 1")
	fl.DurationVar(&r.step, "step", time.Minute, "the time that one number covers")
	fl.Float64Var(&r.speed, "speed", 1,
		"how many times faster to play it: 60 plays a minute, with all of its calls, in a second")
	fl.Float64Var(&r.mean, "mean", 0, "scale the trace to this many requests a second on average; 0 leaves it as it is")
	fl.DurationVar(&r.set.Exec, "exec", 100*time.Millisecond, "how long a replica works on a request")
	fl.IntVar(&r.set.Places, "concurrency", 10, "how many requests a replica works on at a time")
	fl.DurationVar(&r.set.SLO, "slo", time.Second, "the objective for the time of a request")
	fl.DurationVar(&r.set.Start, "start", 2*time.Second, "how long a replica takes to start")
	fl.IntVar(&r.set.Least, "min", 0, "fewest replicas; they run from the beginning")
	fl.IntVar(&r.set.Most, "max", 1000, "most replicas")
	fl.IntVar(&r.set.Grace, "grace", scale.DefaultGrace,
		"for verge: for how many epochs of two seconds fewer replicas must suffice before it scales down")
	fl.Uint64Var(&r.set.Seed, "seed", 1, "seed of all random draws")
	fl.StringArrayVar(&r.only, "only", nil, "only this autoscaler (repeatable; default: all)")
	fl.StringVar(&r.plot, "plot", "", "also plot rate and replicas over time to this file (SVG)")
	outputFlag(cmd, &r.mode, "table", "json", "csv")
	// Both fail only where the flags above are missing.
	_ = cmd.RegisterFlagCompletionFunc("only",
		cobra.FixedCompletions(algorithmNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagFilename("plot", "svg")
	return cmd
}

func algorithmNames() []string {
	var out []string
	for _, x := range autoscale.All() {
		out = append(out, string(x))
	}
	return out
}

// check the options.
func (r *replay) check(cmd *cobra.Command) error {
	s := &r.set
	for _, x := range []struct {
		bad  bool
		what string
	}{
		{r.row < 0 || cmd.Flags().Changed("row") && r.row == 0, "--row counts from 1"},
		{r.step < time.Second || r.step > 24*time.Hour, "--step is from 1s to 24h"},
		{!(r.speed >= 0.001 && r.speed <= 1e5), "--speed is from 0.001 to 100000"},
		{!(r.mean >= 0 && r.mean <= 1e6), "--mean is from 0 to 1000000"},
		{s.Exec < 100*time.Microsecond || s.Exec > time.Hour, "--exec is from 100us to 1h"},
		{s.Places < 1 || s.Places > 10000, "--concurrency is from 1 to 10000"},
		{s.SLO < time.Millisecond || s.SLO > time.Hour, "--slo is from 1ms to 1h"},
		{s.Start < 0 || s.Start > time.Hour, "--start is from 0s to 1h"},
		{s.Most < 1 || s.Most > maxReplicas, fmt.Sprintf("--max is from 1 to %d", maxReplicas)},
		{s.Least < 0 || s.Least > s.Most, "--min is from 0 to --max"},
		{s.Grace < 1 || s.Grace > 10000, "--grace is from 1 to 10000"},
	} {
		if x.bad {
			return usageError(cmd, "%s", x.what)
		}
	}
	for _, name := range r.only {
		if !slices.Contains(algorithmNames(), name) {
			return usageError(cmd, "--only %s is not one of %s", name, strings.Join(algorithmNames(), ", "))
		}
	}
	for _, x := range autoscale.All() {
		if len(r.only) == 0 || slices.Contains(r.only, string(x)) {
			r.algorithms = append(r.algorithms, x)
		}
	}
	return nil
}

// read the trace, and refuse what nobody would wait for.
func (r *replay) read(in io.Reader) error {
	if r.file != "-" {
		f, err := os.Open(r.file)
		if err != nil {
			return &userError{what: "read the trace", why: err.Error(),
				next: "name a CSV file with calls per minute; see: verge autoscale replay --help"}
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	parts, err := trace.Read(in, r.row, r.step)
	if err != nil {
		return &userError{what: "read the trace " + r.file, why: err.Error(),
			next: "see: verge autoscale replay --help"}
	}
	long := trace.Length(parts).Seconds() / r.speed
	if long > maxReplayed.Seconds() {
		return &userError{what: "replay " + r.file,
			why:  fmt.Sprintf("it covers %.0f hours; at most %.0f can be played", long/3600, maxReplayed.Hours()),
			next: "use a part of it, or a higher --speed"}
	}
	r.rates = trace.PerSecond(parts, r.step, r.speed)
	if r.mean > 0 {
		r.rates = trace.Scaled(r.rates, r.mean)
	}
	work := 0.0
	per := r.set.Exec.Seconds() / float64(r.set.Places)
	for _, x := range r.rates {
		r.requests += x
		work += (x + 10) * min(float64(r.set.Most), 2*x*per+float64(r.set.Least)+1)
	}
	if r.requests > maxRequests || work > maxReplayWork {
		return &userError{
			what: "replay " + r.file,
			why: fmt.Sprintf("%.3g requests with %.0f replicas would take too long", r.requests,
				math.Ceil(slices.Max(r.rates)*per)),
			next: fmt.Sprintf("use a part of it, scale it with --mean, or raise --concurrency; at most %.0f million "+
				"requests can be played", maxRequests/1e6),
		}
	}
	return nil
}

func (a *app) replay(ctx context.Context, r replay) error {
	if err := r.read(a.in); err != nil {
		return err
	}
	out := replayed{
		Requests: math.Round(r.requests), Seconds: len(r.rates), MeanRate: r.requests / float64(max(1, len(r.rates))),
		MaxRate: slices.Max(append(r.rates, 0)),
		Ideal:   math.Round(autoscale.Ideal(r.set, r.rates) * float64(len(r.rates))), exact: r.mode == "csv",
		each: map[string][]float64{},
	}
	for _, how := range r.algorithms {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("replay %s: %w", r.file, err)
		}
		got := autoscale.Run(r.set, how, r.rates)[0]
		x := replayOutcome{
			Algorithm: how, Requests: got.Requests, WithinSLO: got.Share(),
			P50: api.Duration(got.P50.Round(time.Microsecond)), P99: api.Duration(got.P99.Round(time.Microsecond)),
			MostPods: got.MaxPods, ColdStarts: got.Starts, Refused: got.Refused,
		}
		for _, n := range got.Each {
			x.PodSeconds += n
			out.each[string(how)] = append(out.each[string(how)], float64(n))
		}
		out.Results = append(out.Results, x)
	}
	if r.plot != "" {
		if err := a.plotReplay(r, out); err != nil {
			return err
		}
	}
	return a.sheet(r.mode, out)
}

// plotReplay draws the rate and below it the replicas, in the time that was played.
func (a *app) plotReplay(r replay, out replayed) error {
	unit, steps := "seconds", 1.0
	switch {
	case out.Seconds > 3*3600:
		unit, steps = "hours", 3600
	case out.Seconds > 300:
		unit, steps = "minutes", 60
	}
	picture := chart.OverTime(unit, steps,
		chart.Panel{Title: "requests per second", Lines: map[string][]float64{"rate": r.rates}},
		chart.Panel{Title: "replicas", Lines: out.each})
	if err := atomicfile.Write(r.plot, []byte(picture), 0o644); err != nil {
		return &userError{what: "write the plot " + r.plot, why: err.Error(),
			next: "name a file in an existing directory"}
	}
	return nil
}
