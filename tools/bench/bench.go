// Package bench is what the programs of `make bench-…` and `make footprint` share: how they
// start and end, figures with what they are to reach, and what processes use.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Main runs a program until it ends or is interrupted. The exit code is 1 after an error, as
// that of a figure that was not reached.
func Main(run func(context.Context) error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	cancel()
	if err != nil {
		Say("%v", err)
		os.Exit(1)
	}
}

// Say tells people what happens, on the standard error.
func Say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, filepath.Base(os.Args[0])+": "+format+"\n", args...)
}

// Print writes one object a line, as JSON.
func Print(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		line = []byte(err.Error()) // a value that is no number: seen at once
	}
	fmt.Println(string(line))
}

// Figure is one that was measured.
type Figure struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	// Reach is what it must not exceed, or where Least is set not fall short of, and OK
	// whether that is so; left out where nothing was asked for.
	Reach *float64 `json:"reach,omitempty"`
	Least bool     `json:"least,omitempty"`
	OK    *bool    `json:"ok,omitempty"`
}

// Figures are those so far. Each is printed when it is added.
type Figures struct {
	All    []Figure
	missed []string
}

// Note adds a figure of which nothing is asked.
func (f *Figures) Note(value float64, unit, what string, args ...any) {
	f.add(Figure{What: fmt.Sprintf(what, args...), Value: value, Unit: unit})
}

// Most adds one that must not exceed reach.
func (f *Figures) Most(value, reach float64, unit, what string, args ...any) {
	ok := f.Reached(value <= reach, value, reach, unit, what, args...)
	f.add(Figure{What: fmt.Sprintf(what, args...), Value: value, Unit: unit, Reach: &reach, OK: &ok})
}

// Least adds one that must not fall short of reach.
func (f *Figures) Least(value, reach float64, unit, what string, args ...any) {
	ok := f.Reached(value >= reach, value, reach, unit, what, args...)
	f.add(Figure{What: fmt.Sprintf(what, args...), Value: value, Unit: unit, Reach: &reach, Least: true, OK: &ok})
}

func (f *Figures) add(x Figure) {
	f.All = append(f.All, x)
	Print(x)
}

// Reached notes for Missed whether a figure that is printed elsewhere is as asked for.
func (f *Figures) Reached(ok bool, value, reach float64, unit, what string, args ...any) bool {
	if !ok {
		f.missed = append(f.missed,
			fmt.Sprintf("%s: %s %s, asked for %s", fmt.Sprintf(what, args...), Number(value), unit, Number(reach)))
	}
	return ok
}

// Missed is an error that names the figures that are not as asked for.
func (f *Figures) Missed() error {
	if f.missed == nil {
		return nil
	}
	return fmt.Errorf("not reached:\n  %s", strings.Join(f.missed, "\n  "))
}

// Number has three digits that count.
func Number(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Milliseconds of a time, with three digits after the point.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Median of values, 0 of none.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Quantile of times in milliseconds, which it sorts; 0 of none.
func Quantile(q float64, times []time.Duration) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return Milliseconds(times[min(int(q*float64(len(times))), len(times)-1)])
}

// Pause waits, and fails where ctx ends before that.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
