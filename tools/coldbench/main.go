// Command coldbench is `make bench-cold`: what a request waits for that starts an
// instance, over the whole path: a root, a cluster and a worker, each its own process,
// and a service that sleeps (replicas.min 0) until it comes. It prints one JSON object
// a line for each kind of instance: the time from sending the request to the whole
// answer, at the entry of the service on the worker and through its gateway, beside a
// bare floor taken in turns in the same run, and what Verge's processes computed for
// one start and stop. The last rows are what deployed functions that nobody asks cost
// in memory. A figure that is not reached ends the program with status 1, at the end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	verge, hello, module, only string
	rounds, functions          int
	keep                       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.verge, "verge", "bin/verge", "the verge binary")
	flag.StringVar(&o.hello, "hello", "bin/hello", "the program of processes and containers")
	flag.StringVar(&o.module, "module", "internal/runtime/wasm/testdata/hello.wasm", "the small module")
	flag.StringVar(&o.only, "only", "", "only the kinds whose name has this in it")
	flag.IntVar(&o.rounds, "rounds", 20, "how many starts of each kind at the entry, and as many through the gateway")
	flag.IntVar(&o.functions, "functions", 1000, "how many idle functions are deployed at last, 0 for none")
	flag.DurationVar(&o.keep, "keep", time.Minute, "how long a worker keeps a module in memory that nobody uses")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "coldbench:", err)
		os.Exit(1)
	}
}

// row is what starts of one kind took, in milliseconds.
type row struct {
	Kind   string  `json:"kind"`
	Starts int     `json:"starts"`
	P50    float64 `json:"p50_ms"`
	P95    float64 `json:"p95_ms"`
	// Entry and Gateway are the medians of either way.
	Entry   float64 `json:"entry_p50_ms"`
	Gateway float64 `json:"gateway_p50_ms"`
	// Floor is the median of what is done without Verge, and what that is; Ratio that
	// of the two medians.
	Floor float64 `json:"floor_p50_ms"`
	Bare  string  `json:"floor"`
	Ratio float64 `json:"ratio"`
	// CPU of agent and engine for one start and its stop, in steps of 10 ms over all.
	CPU   float64 `json:"cpu_ms_per_start"`
	Reach float64 `json:"reach_p50_ms"`
	OK    bool    `json:"ok"`
}

func say(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		line = []byte(err.Error())
	}
	fmt.Println(string(line))
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// quantile of times, which it sorts; 0 of none.
func quantile(q float64, times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return milliseconds(times[min(int(q*float64(len(times))), len(times)-1)])
}

func run(ctx context.Context, o options) (err error) {
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var missed []string
	note := func(what string, value, most float64, unit string) bool {
		if value > most {
			missed = append(missed, fmt.Sprintf("%s: %.1f %s, at most %g", what, value, unit, most))
		}
		return value <= most
	}
	for _, k := range b.kinds {
		r := row{
			Kind: k.name, Starts: len(k.entry) + len(k.gateway), Reach: k.reach, Bare: k.bare,
			Entry: quantile(0.5, k.entry), Gateway: quantile(0.5, k.gateway), Floor: quantile(0.5, k.floors),
		}
		all := slices.Concat(k.entry, k.gateway)
		r.P50, r.P95 = quantile(0.5, all), quantile(0.95, all)
		if r.Floor > 0 {
			r.Ratio = r.P50 / r.Floor
		}
		if r.Starts > 0 {
			r.CPU = milliseconds(k.cpu) / float64(r.Starts)
		}
		r.OK = note("cold start of "+k.name, r.P50, k.reach, "ms")
		say(r)
	}
	if o.functions > 0 && strings.Contains(idle, o.only) {
		list, err := b.idleFunctions(ctx)
		if err != nil {
			return fmt.Errorf("idle functions: %w", err)
		}
		for _, f := range list {
			f.OK = note(f.What, f.Value, f.Reach, f.Unit)
			say(f)
		}
	}
	if missed != nil {
		return fmt.Errorf("not reached:\n  %s", strings.Join(missed, "\n  "))
	}
	return nil
}
