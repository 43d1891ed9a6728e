package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/place"
)

// ilpCase is a case of plugins/ilp, ilpAnswer its answer.
type ilpCase struct {
	Nodes     []map[string]float64 `json:"nodes"`
	Functions []ilpFunction        `json:"functions"`
}

type ilpFunction struct {
	Pods   int                `json:"pods"`
	Demand map[string]float64 `json:"demand"`
}

type ilpAnswer struct {
	Placed    [][3]int `json:"placed"`
	Pods      int      `json:"pods"`
	Objective float64  `json:"objective"`
	Bound     float64  `json:"bound"`
	Optimal   bool     `json:"optimal"`
}

// needsSolver is the Python that "make ilp" has installed the solver for.
func needsSolver(t *testing.T) (python, script string) {
	t.Helper()
	python = must[string](t)(filepath.Abs("../bin/ilp/bin/python"))
	if _, err := os.Stat(python); err != nil {
		t.Skip("SKIPPED for want of HiGHS: make ilp installs the solver of plugins/ilp")
	}
	return python, must[string](t)(filepath.Abs("../plugins/ilp/ilp.py"))
}

// TestILPIsOptimal holds the answers of the solver against trying everything.
func TestILPIsOptimal(t *testing.T) {
	t.Parallel()
	python, script := needsSolver(t)
	random := rand.New(rand.NewPCG(6, 1))
	var cases []ilpCase
	for range 25 {
		var c ilpCase
		for range 2 {
			c.Nodes = append(c.Nodes, map[string]float64{"cpu": float64(2 + random.IntN(7)), "memory": float64(100 + random.IntN(500))})
		}
		for range 1 + random.IntN(3) {
			c.Functions = append(c.Functions, ilpFunction{1 + random.IntN(4), map[string]float64{"cpu": float64(1 + random.IntN(4)), "memory": float64(random.IntN(300))}})
		}
		cases = append(cases, c)
	}
	for _, objective := range []string{"ilp0", "ilp1"} {
		cmd := exec.Command(python, script, "--solve", "-", "--objective", objective, "--gap", "0", "--time-limit", "60")
		cmd.Stdin, cmd.Stderr = bytes.NewReader(must[[]byte](t)(json.Marshal(cases))), os.Stderr
		answers := json.NewDecoder(bytes.NewReader(must[[]byte](t)(cmd.Output())))
		for n, c := range cases {
			var a ilpAnswer
			if err := answers.Decode(&a); err != nil {
				t.Fatal(err)
			}
			best := c.best(objective)
			if got := c.value(t, a.Placed, objective); math.Abs(got-best) > 1e-6*best || math.Abs(a.Objective-got) > 1e-6*best || !a.Optimal || a.Bound < best*(1-1e-6) {
				t.Errorf("%s, case %d: its placement is worth %g, it says %g (bound %g, optimal %v); the best is %g", objective, n, got, a.Objective, a.Bound, a.Optimal, best)
			}
		}
	}
}

// value of a placement, which must keep within everything.
func (c *ilpCase) value(t *testing.T, placed [][3]int, objective string) float64 {
	t.Helper()
	w := make([][]int, len(c.Functions))
	for f := range w {
		w[f] = make([]int, len(c.Nodes))
	}
	for _, p := range placed {
		w[p[0]][p[1]] += p[2]
	}
	if !c.holds(w) {
		t.Errorf("placement %v breaks a constraint of %+v", placed, c)
	}
	return c.worth(w, objective)
}

func (c *ilpCase) holds(w [][]int) bool {
	for n, node := range c.Nodes {
		for j, free := range node {
			used := 0.0
			for f, fn := range c.Functions {
				used += float64(w[f][n]) * fn.Demand[j]
			}
			if used > free {
				return false
			}
		}
	}
	for f, fn := range c.Functions {
		sum := 0
		for _, pods := range w[f] {
			sum += pods
		}
		if sum > fn.Pods {
			return false
		}
	}
	return true
}

// worth is the objective of equation 6 of the paper.
func (c *ilpCase) worth(w [][]int, objective string) (total float64) {
	for f, fn := range c.Functions {
		share := 0.0
		for j, d := range fn.Demand {
			all := 0.0
			for _, node := range c.Nodes {
				all += node[j]
			}
			share = max(share, d*float64(fn.Pods)/all)
		}
		for _, pods := range w[f] {
			for i := 1; i <= pods; i++ {
				if objective == "ilp0" {
					total++
				} else {
					total += 1 / share / float64(i)
				}
			}
		}
	}
	return total
}

// best tries every placement on two nodes.
func (c *ilpCase) best(objective string) (best float64) {
	w := make([][]int, len(c.Functions))
	var try func(f int)
	try = func(f int) {
		if f == len(w) {
			if c.holds(w) {
				best = max(best, c.worth(w, objective))
			}
			return
		}
		for a := range c.Functions[f].Pods + 1 {
			for b := range c.Functions[f].Pods - a + 1 {
				w[f] = []int{a, b}
				try(f + 1)
			}
		}
	}
	try(0)
	return best
}

// TestILPPlugin places two services by the solver, which sees them together.
func TestILPPlugin(t *testing.T) {
	t.Parallel()
	python, script := needsSolver(t)
	w := newRoot(t)
	socket := filepath.Join(w.dir, "ilp.sock")
	w.program(t, nil, python, script, "--listen", "unix:"+socket, "--token-file", w.file("token-", "secret-of-the-solver"), "--objective", "ilp0")
	eventually(t, 60*time.Second, "the solver listens", func() error {
		c, err := net.DialTimeout("unix", socket, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	w.addCluster("edge", "--plugin", "ilp=unix:"+socket, "--plugin-token-file", "ilp="+w.file("token-", "secret-of-the-solver"), "--plugin-joint", "ilp")
	w.cluster["edge"].answers()
	w.addWorker("edge", "w1", "--cpus", "2")
	w.addWorker("edge", "w2", "--cpus", "2")
	w.allReady()
	service := func(cpu string) string {
		return fmt.Sprintf("{command: [testprogram], ports: [{name: http}], replicas: 2, resources: {cpu: %s}, scheduler: plugin, plugin: ilp}", cpu)
	}
	// All four have room in one way only: one of each on each worker.
	w.root.apply("application: both\nservices:\n  small: " + service("500m") + "\n  large: " + service("1500m") + "\n")
	on := map[string]string{}
	for id, i := range w.root.instances("both") {
		e := decode[explanation](t, w.cluster["edge"].ok("explain", "instance/"+id, "-o", "json"))
		d := e.Decisions[len(e.Decisions)-1].Decision
		replayed(t, id, d)
		if a := d.Request.Advice; a == nil || a.Problem != "" || a.Worker != d.Chosen {
			t.Errorf("%s is on %s, the solver said %+v", id, d.Chosen, a)
		}
		svc, _, _ := strings.Cut(strings.TrimPrefix(id, "both."), ".")
		on[svc+" on "+strings.TrimPrefix(i.Worker, "edge/")] = id
	}
	wantEqual(t, "one of each on each worker", len(on), 4)
}

// TestILPPluginOnTheBus is the same over NATS: the solver joins its cluster as a plugin,
// by the commands of docs/plugins.md, is the default of the cluster, and is gone when its
// keys are revoked.
func TestILPPluginOnTheBus(t *testing.T) {
	t.Parallel()
	python, script := needsSolver(t)
	w := newRoot(t)
	w.addCluster("edge", "--plugin", "ilp=nats:", "--plugin-joint", "ilp", "--scheduler", "plugin:ilp")
	edge := w.cluster["edge"]
	edge.answers()
	dir := filepath.Join(w.dir, "ilp-identity")
	token := w.file("token-", edge.ok("token", "create", "--plugin", "ilp"))
	edge.ok("plugin", "join", "--token-file", token, "--dir", dir)
	w.program(t, nil, python, script, "--nats", dir, "--objective", "ilp0")
	w.addWorker("edge", "w1", "--cpus", "2")
	w.addWorker("edge", "w2", "--cpus", "2")
	w.allReady()
	n := 0
	decided := func(want func(d place.Decision) bool, what string) {
		eventually(t, 60*time.Second, what, func() error {
			n++
			app := fmt.Sprintf("app%d", n)
			w.root.apply("application: " + app + "\nservices:\n  web: {command: [testprogram], ports: [{name: http}], resources: {cpu: 1m}}\n")
			e := decode[explanation](t, edge.ok("explain", "instance/"+app+".web.0", "-o", "json"))
			d := e.Decisions[len(e.Decisions)-1].Decision
			if !want(d) {
				return fmt.Errorf("decided by %s, %+v", d.Request.Scheduler, d.Request.Advice)
			}
			return nil
		})
	}
	decided(func(d place.Decision) bool {
		return d.Request.Advice != nil && d.Request.Advice.Problem == "" && d.Request.Advice.Worker == d.Chosen
	}, "the solver decides")
	edge.ok("revoke", "plugin/ilp")
	decided(func(d place.Decision) bool { return d.Request.Advice != nil && d.Request.Advice.Problem != "" }, "rom decides once its keys are revoked")
}
