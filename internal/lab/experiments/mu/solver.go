package mu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/sim/placement"
)

// solver is plugins/ilp with the Python that "make ilp" has made for it.
type solver struct{ python, script string }

// findSolver looks below the directory of this program, where make puts both in a clone
// of the repository, then below the one that it runs in.
func findSolver() (solver, error) {
	var roots []string
	if self, err := os.Executable(); err == nil {
		roots = append(roots, filepath.Dir(filepath.Dir(self)))
	}
	if wd, err := os.Getwd(); err == nil {
		roots = append(roots, wd)
	}
	for _, root := range roots {
		s := solver{filepath.Join(root, "bin/ilp/bin/python"), filepath.Join(root, "plugins/ilp/ilp.py")}
		_, noPython := os.Stat(s.python)
		_, noScript := os.Stat(s.script)
		if noPython == nil && noScript == nil {
			return s, nil
		}
	}
	return solver{}, errors.New("the solver of plugins/ilp is not here: run make ilp in a clone of the repository, and this with bin/verge or from there")
}

// solved is a case with what the solver says of it.
type solved struct {
	result *placement.Result
	// gap is how much better another placement could be at most, as a share.
	gap float64
}

// maxSolved bounds an answer: a line for each case.
const maxSolved = 64 << 20

// solve solves cases by one of the models of plugins/ilp, each in limit at most and as
// near to the best as gap.
func (s solver) solve(ctx context.Context, cases []*placement.Scenario, model string, limit time.Duration, gap float64) ([]solved, error) {
	type function struct {
		Pods   int              `json:"pods"`
		Demand map[string]int64 `json:"demand"`
	}
	type problem struct {
		Nodes     []map[string]int64 `json:"nodes"`
		Functions []function         `json:"functions"`
	}
	asked := make([]problem, len(cases))
	for i, c := range cases {
		for _, w := range c.Workers {
			asked[i].Nodes = append(asked[i].Nodes, map[string]int64{"cpu": int64(w.Capacity.CPU), "memory": int64(w.Capacity.Memory)})
		}
		for _, v := range c.Services {
			asked[i].Functions = append(asked[i].Functions, function{v.Replicas, map[string]int64{"cpu": int64(v.Demand.CPU), "memory": int64(v.Demand.Memory)}})
		}
	}
	in, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("writing the cases for the solver: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.python, s.script, "--solve", "-", "--objective", model,
		"--time-limit", fmt.Sprint(limit.Seconds()), "--gap", fmt.Sprint(gap)) //nolint:gosec // found by findSolver; the rest is ours
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("running the solver: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("running the solver: %w: make ilp puts it right", err)
	}
	list, readErr := readSolved(io.LimitReader(out, maxSolved), cases, model)
	if readErr != nil {
		_ = cmd.Process.Kill() // it would wait for somebody who reads
	}
	if err := cmd.Wait(); err != nil && (readErr == nil || said.Len() > 0) {
		return nil, fmt.Errorf("the solver failed: %w: %.300s", err, strings.TrimSpace(said.String()))
	}
	return list, readErr
}

// readSolved reads the answers to cases. A placement that does not keep within the nodes
// is an error: then the solver's model is wrong.
func readSolved(from io.Reader, cases []*placement.Scenario, model string) ([]solved, error) {
	answers, out := json.NewDecoder(from), make([]solved, len(cases))
	for i, c := range cases {
		var a struct {
			Placed [][3]int `json:"placed"`
			Gap    float64  `json:"gap"`
			CPU    float64  `json:"cpu_seconds"`
		}
		if err := answers.Decode(&a); err != nil {
			return nil, fmt.Errorf("the solver's answer to case %d: %w", i, err)
		}
		spots := make([]placement.Placed, len(a.Placed))
		for k, x := range a.Placed {
			spots[k] = placement.Placed{Service: x[0], Worker: x[1], Instances: x[2]}
		}
		r, err := placement.Evaluate(c, model, spots, time.Duration(a.CPU*float64(time.Second)))
		if err != nil {
			return nil, fmt.Errorf("the solver's answer to case %d: %w", i, err)
		}
		out[i] = solved{r, a.Gap}
	}
	return out, nil
}
