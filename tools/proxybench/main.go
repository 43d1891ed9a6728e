// Command proxybench is `make bench-proxy`: what a request costs that passes the
// router of a worker, beside HAProxy (HTTP/1.1) or the ReverseProxy of the standard library
// with a tuned garbage collector (HTTP/2, gRPC), in turns in one run. Each program is a process of
// its own, so that the processor time of the proxy alone is counted. It prints one row
// for each figure: what the other one costs, what the router costs, the median of the ratios
// of all rounds, and what is to be reached.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

type options struct {
	rounds  int
	span    time.Duration
	only    string
	haproxy string
	profile string
}

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "as-") {
		if err := runRole(os.Args[1], os.Stdin); err != nil {
			bench.Say("%s: %v", os.Args[1], err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "how often each pair is measured")
	flag.DurationVar(&o.span, "span", 2*time.Second, "how long each measurement takes")
	flag.StringVar(&o.only, "only", "", "only the figures whose name has this in it")
	flag.StringVar(&o.haproxy, "haproxy", "haproxy", "the program of HAProxy")
	flag.StringVar(&o.profile, "profile", "", "folder to write profiles of the routers to")
	flag.Parse()
	bench.Main(func(ctx context.Context) error { return run(ctx, o) })
}

// row is one figure.
type row struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Theirs float64 `json:"theirs"`
	Ours   float64 `json:"ours"`
	// Ratio is the median of the rounds'; that of memory is of no meaning, and 0.
	Ratio float64 `json:"ratio,omitempty"`
	Reach string  `json:"reach"`
	OK    bool    `json:"ok"`
}

func run(ctx context.Context, o options) error {
	b, err := newMeasurer(ctx, o)
	if err != nil {
		return err
	}
	defer b.close()
	var rows []row
	for _, f := range b.figures() {
		if !strings.Contains(f.name, o.only) {
			continue
		}
		r, err := f.measure(f.name)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		rows = append(rows, r...)
		for _, x := range r {
			fmt.Fprintf(os.Stderr, "%-78s %9.2f %9.2f %-4s ratio %5.2f  reach %s\n", x.What, x.Theirs, x.Ours, x.Unit,
				x.Ratio, x.Reach)
		}
	}
	for _, r := range rows {
		bench.Print(r)
	}
	return nil
}
