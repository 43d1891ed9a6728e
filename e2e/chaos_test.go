package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Variables that make the test of chaos longer, or repeat one.
const (
	chaosFor  = "VERGE_CHAOS"      // how long, such as 5m
	chaosSeed = "VERGE_CHAOS_SEED" // a number
)

// chaosHost is the ingress host of the application that lives through it.
const chaosHost = "chaos.test"

// TestChaos kills, freezes and revives the parts of a world at random moments
// while its application is changed, and looks what is left when it has ended:
// what was acknowledged last, exactly as many processes as were promised, each
// ready, and nothing else.
func TestChaos(t *testing.T) {
	length, seed := 12*time.Second, rand.Uint64()
	if s := os.Getenv(chaosFor); s != "" {
		length = must[time.Duration](t)(time.ParseDuration(s))
	}
	if s := os.Getenv(chaosSeed); s != "" {
		seed = must[uint64](t)(strconv.ParseUint(s, 10, 64))
	}
	w := newWorld(t, 2, "edge")
	w.addCluster("fog").answers()
	w.addWorker("fog", "fog-1")
	w.allReady()
	t.Logf("%s=%d", chaosSeed, seed)
	c := &chaos{world: w, rand: rand.New(rand.NewPCG(seed, 0))}
	c.change()
	w.root.holds("chaos", 30*time.Second)
	for end := time.Now().Add(length); time.Now().Before(end); {
		c.step()
	}
	c.heal()
	c.check(t)
}

// chaos is a world in trouble.
type chaos struct {
	*world
	rand   *rand.Rand
	mark   int // of the last apply that was tried
	copies map[int]int
	acked  int // mark of the last apply that was acknowledged
	log    []string
}

func (c *chaos) say(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// daemons that can be hurt, by name, in order.
func (c *chaos) daemons() []*daemon {
	all := []*daemon{c.root.daemon}
	for _, name := range slices.Sorted(maps.Keys(c.cluster)) {
		all = append(all, c.cluster[name].daemon)
	}
	for _, name := range slices.Sorted(maps.Keys(c.worker)) {
		all = append(all, c.worker[name].daemon)
	}
	return all
}

// pick is one of the processes of the world that fit.
func (c *chaos) pick(fits func(process) bool) (process, bool) {
	list := slices.DeleteFunc(processesOf(c.dir), func(p process) bool { return !fits(p) })
	if len(list) == 0 {
		return process{}, false
	}
	slices.SortFunc(list, func(a, b process) int { return strings.Compare(strings.Join(a.args, " "), strings.Join(b.args, " ")) })
	return list[c.rand.IntN(len(list))], true
}

func isEngine(p process) bool   { return slices.Contains(p.args, "engine") }
func isInstance(p process) bool { return p.env["VERGE_INSTANCE"] != "" }

// step does one bad or good thing, and waits a moment.
func (c *chaos) step() {
	c.t.Helper()
	list := c.daemons()
	d := list[c.rand.IntN(len(list))]
	pause := time.Duration(c.rand.IntN(3000)) * time.Millisecond
	switch n := c.rand.IntN(10); {
	case n < 4:
		c.say("kill %s for %s", d.name, pause)
		d.kill()
		c.wait(pause)
		d.start()
	case n < 6:
		c.say("freeze %s for %s", d.name, 2*pause)
		d.signal(syscall.SIGSTOP)
		c.wait(2 * pause)
		d.signal(syscall.SIGCONT)
	case n < 7:
		if p, ok := c.pick(isEngine); ok {
			c.say("kill engine %d", p.pid)
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may have ended by itself
		}
	case n < 8:
		if p, ok := c.pick(isInstance); ok {
			c.say("kill %s", p.env["VERGE_INSTANCE"])
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	default:
		c.change()
	}
	c.wait(time.Duration(c.rand.IntN(700)) * time.Millisecond)
}

// wait lets d pass; there is nothing to wait for but time.
func (c *chaos) wait(d time.Duration) {
	select {
	case <-c.t.Context().Done():
	case <-time.After(d):
	}
}

// change applies the application with another mark and number of replicas. An
// apply that fails may have been stored or not.
func (c *chaos) change() {
	c.mark++
	if c.copies == nil {
		c.copies = map[int]int{}
	}
	c.copies[c.mark] = 1 + c.rand.IntN(6)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err := c.root.client().Apply(ctx, []byte(chaotic(c.mark, c.copies[c.mark])), false)
	c.say("apply mark %d with %d replicas: %v", c.mark, c.copies[c.mark], err)
	if err == nil {
		c.acked = c.mark
	}
}

func chaotic(mark, replicas int) string {
	return fmt.Sprintf(`application: chaos
services:
  front:
    command: [testprogram]
    env: {MARK: "%d"}
    replicas: %d
    replace_after: 4s
    restart: {max_restarts: 100}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
`, mark, replicas, chaosHost)
}

// heal lets everything run again.
func (c *chaos) heal() {
	for _, d := range c.daemons() {
		if !d.running() {
			c.say("%s had ended by itself", d.name)
			d.start()
		}
	}
	c.root.answers()
	for _, x := range c.cluster {
		x.answers()
	}
}

// check holds what must be true in the end.
func (c *chaos) check(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("what was done:\n%s", strings.Join(c.log, "\n"))
		}
	}()
	c.allReady()
	c.root.holds("chaos", 90*time.Second)
	replicas := -1
	good := func() error {
		app, err := c.root.client().Application(context.Background(), "chaos")
		if err != nil {
			return err
		}
		replicas = app.Services[0].Wanted
		ids := map[string]int{}
		marks := map[string]bool{}
		n := 0
		for _, p := range processesOf(c.dir) {
			if isInstance(p) && p.env["VERGE_APP"] == "chaos" {
				ids[p.env["VERGE_INSTANCE"]]++
				marks[p.env["MARK"]] = true
				n++
			}
		}
		if n != replicas || len(ids) != replicas {
			return fmt.Errorf("%d processes of %d instances, %d are wanted: %v", n, len(ids), replicas, ids)
		}
		if len(marks) != 1 {
			return fmt.Errorf("they run revisions %v", marks)
		}
		mark := must[int](t)(strconv.Atoi(slices.Collect(maps.Keys(marks))[0]))
		if mark < c.acked || c.copies[mark] != replicas {
			return fmt.Errorf("they run mark %d with %d replicas, %d was acknowledged last", mark, replicas, c.acked)
		}
		list, err := c.root.client().Instances(context.Background(), "chaos", "")
		if err != nil {
			return err
		}
		return differs("instances that the root knows", len(list), replicas)
	}
	eventually(t, 60*time.Second, "exactly what is wanted runs", good)
	c.root.holds("chaos", 20*time.Second)
	throughout(t, 3*time.Second, "exactly what is wanted runs", good)
	for _, name := range slices.Sorted(maps.Keys(c.worker)) {
		eventually(t, 20*time.Second, "gateway of "+name+" routes to it", func() error {
			_, err := fetch(c.worker[name].gateway, chaosHost, "/whoami")
			return err
		})
	}
	t.Logf("%d steps, %d replicas at the end", len(c.log), replicas)
}
