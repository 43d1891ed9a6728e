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
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/tools/bench"
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
	bench.Main(func(ctx context.Context) error { return run(ctx, o) })
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

func run(ctx context.Context, o options) (err error) {
	b, err := newMeasurer(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for _, k := range b.kinds {
		r := row{
			Kind: k.name, Starts: len(k.entry) + len(k.gateway), Reach: k.reach, Bare: k.bare,
			Entry: bench.Quantile(0.5, k.entry), Gateway: bench.Quantile(0.5, k.gateway),
			Floor: bench.Quantile(0.5, k.floors),
		}
		all := slices.Concat(k.entry, k.gateway)
		r.P50, r.P95 = bench.Quantile(0.5, all), bench.Quantile(0.95, all)
		if r.Floor > 0 {
			r.Ratio = r.P50 / r.Floor
		}
		if r.Starts > 0 {
			r.CPU = bench.Milliseconds(k.cpu) / float64(r.Starts)
		}
		r.OK = b.Reached(r.P50 <= k.reach, r.P50, k.reach, "ms", "cold start of %s", k.name)
		bench.Print(r)
	}
	if o.functions > 0 && strings.Contains(idle, o.only) {
		if err := b.idleFunctions(ctx); err != nil {
			return fmt.Errorf("idle functions: %w", err)
		}
	}
	return b.Missed()
}
