// Command proxybench is `make bench-proxy`: what a request costs that passes the
// router of a worker, beside HAProxy (HTTP/1.1) or the ReverseProxy of the standard library
// with a tuned garbage collector (HTTP/2, gRPC), in turns in one run. Each program is a process of
// its own, so that the processor time of the proxy alone is counted. It prints one row
// for each figure: what the other one costs, what the router costs, the median of the ratios
// of all rounds, and what is to be reached.
package main

import (
	"context"
	"encoding/json"
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
	rounds  int
	span    time.Duration
	only    string
	haproxy string
	profile string
}

func main() {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "as-") {
		if err := runRole(os.Args[1], os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "proxybench:", os.Args[1]+":", err)
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
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxybench:", err)
		os.Exit(1)
	}
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
	b, err := newBench(ctx, o)
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
			fmt.Fprintf(os.Stderr, "%-78s %9.2f %9.2f %-4s ratio %5.2f  reach %s\n", x.What, x.Theirs, x.Ours, x.Unit, x.Ratio, x.Reach)
		}
	}
	enc := json.NewEncoder(os.Stdout)
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
