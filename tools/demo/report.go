package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// report is what the demo prints. It may be used concurrently.
type report struct {
	w     io.Writer
	begin time.Time

	mu     sync.Mutex
	rows   [][2]string // of the table at the end
	broken []string    // promises that were not kept
}

func newReport(w io.Writer) *report { return &report{w: w, begin: time.Now()} }

// step prints a line with the time since the beginning.
func (r *report) step(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.w, "%6.2fs  %s\n", time.Since(r.begin).Seconds(), fmt.Sprintf(format, args...))
}

// Write prints what a command says, indented.
func (r *report) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for line := range strings.Lines(string(p)) {
		if _, err := fmt.Fprintf(r.w, "           %s\n", strings.TrimRight(line, "\n")); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// measured adds a row to the table.
func (r *report) measured(what, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, [2]string{what, fmt.Sprintf(format, args...)})
}

// expect notes a promise that was not kept.
func (r *report) expect(kept bool, format string, args ...any) {
	if kept {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, fmt.Sprintf(format, args...))
}

func (r *report) table() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintln(r.w)
	t := tabwriter.NewWriter(r.w, 0, 8, 2, ' ', 0)
	for _, row := range r.rows {
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", row[0], row[1])
	}
	_ = t.Flush()
	_, _ = fmt.Fprintln(r.w)
}

// verdict is an error that names what did not go as promised.
func (r *report) verdict() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.broken) == 0 {
		return nil
	}
	return fmt.Errorf("not as promised:\n  %s", strings.Join(r.broken, "\n  "))
}

// ms is a duration for people.
func ms(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
