package stage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Hollow is a process that is many workers which run nothing.
type Hollow struct {
	*Process
	// Workers is how many, each with 8 cpu, 16 GiB of memory and 100 GiB of disk.
	Workers int

	stage *Stage
	name  string
	args  []string
}

// Hollow lets workers join, NAME-1 and so on, and waits until all are connected.
func (s *Stage) Hollow(ctx context.Context, c *Cluster, name string, workers int, timeout time.Duration) (*Hollow,
	error) {
	token, err := s.token(ctx, c.Context, "hollow-"+name, "--worker", "--uses", strconv.Itoa(workers))
	if err != nil {
		return nil, err
	}
	h := &Hollow{stage: s, name: name, Workers: workers, args: []string{
		"worker", "--hollow", strconv.Itoa(workers), "--name", name, "--data-dir",
		filepath.Join(s.Dir, "workers", name),
		"--token-file", token, "--cpus", "8", "--memory", "16Gi", "--disk", "100Gi", "--network", "loopback",
	}}
	return h, h.Start(ctx, timeout)
}

// Start starts it, again with the same command if it has run before.
func (h *Hollow) Start(ctx context.Context, timeout time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if h.Process != nil { // what it said before is not about this run
		if err := os.Remove(h.Log); err != nil {
			return err
		}
	}
	if h.Process, err = h.stage.start("hollow "+h.name, h.args...); err != nil {
		return err
	}
	for {
		b, err := os.ReadFile(h.Log)
		if err == nil && strings.Contains(string(b), "nothing really runs there") {
			return nil
		}
		select {
		case <-h.done:
			return fmt.Errorf("the %s ended (%w); its last words:\n%s", h.Name, h.err, h.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("not all of the %d workers of the %s are connected: %w", h.Workers, h.Name, ctx.Err())
		case <-time.After(250 * time.Millisecond):
		}
	}
}
