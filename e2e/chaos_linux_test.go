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
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// chaosSeeds says which seeds TestChaos runs: "50" the first 50 from a random one
// on, "7-7" or "1-100,7" these. Without it, it is the first 12.
const chaosSeeds = "VERGE_CHAOS_SEEDS"

// defaultSeeds are many enough to meet most pairs of trouble, and few enough for
// every run of the tests. They are always the same.
const defaultSeeds = "1-12"

// TestChaos does to a world what chance wants: parts fail in any way, several at a
// time, and come back, while people change what should run. After every step the
// invariants of the design are looked at, and in the end everything must be as it
// was asked for last, and nothing else be left.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	seeds, err := seedsOf(os.Getenv(chaosSeeds), rand.Uint64N(1e9))
	if err != nil {
		t.Fatalf("%s: %v", chaosSeeds, err)
	}
	t.Parallel() // it waits much more than it computes
	t.Logf("seeds %d to %d", seeds[0], seeds[len(seeds)-1])
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			runChaos(t, seed)
		})
	}
}

// seedsOf reads a number, which counts from start on, or a list of seeds and
// ranges.
func seedsOf(text string, start uint64) (out []uint64, err error) {
	if text == "" {
		text = defaultSeeds
	}
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		for i := range n {
			out = append(out, start+i)
		}
	} else {
		for part := range strings.SplitSeq(text, ",") {
			first, last, isRange := strings.Cut(part, "-")
			if !isRange {
				last = first
			}
			a, err1 := strconv.ParseUint(first, 10, 64)
			b, err2 := strconv.ParseUint(last, 10, 64)
			if err1 != nil || err2 != nil || b < a || b-a > 1e6 {
				return nil, fmt.Errorf("%q is neither a number nor a list such as 1-100,7", text)
			}
			for seed := a; seed <= b; seed++ {
				out = append(out, seed)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q are no seeds", text)
	}
	return out, nil
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string]string{
		"": "[1 2 3 4 5 6 7 8 9 10 11 12]", "3": "[70 71 72]", "5-7": "[5 6 7]", "1-3,9": "[1 2 3 9]", "7-7": "[7]",
	} {
		if got, err := seedsOf(text, 70); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "x", "3-1", "1-", "-4", "1-99999999"} {
		if got, err := seedsOf(text, 70); err == nil {
			t.Errorf("%q: %d seeds, want an error", text, len(got))
		}
	}
}

const (
	chaosHost   = "chaos.test"
	chaosSteps  = 12
	mostTrouble = 3 // at a time
	// secretWorker is the name of a worker that must not leave its cluster.
	secretWorker = "hidden-worker"
)

// chaosDisks are the nodes whose disks can be full.
var chaosDisks = []string{"root", "edge", "edge-2"}

// chaos is a world in trouble.
//
//	root
//	edge    edge-1 (its agent may be hurt, its engine and instances are not), edge-2
//	fog     keeps its details to itself, with one worker
type chaos struct {
	*world
	seed    uint64
	rand    *rand.Rand
	links   bool // links can fail
	steady  *stream
	trouble []trouble // that lasts
	log     []string

	wish  wish
	extra presence
	asks  int // changes of the application that were asked for
}

// trouble is a failure that lasts until it is undone.
type trouble struct {
	part, how, node string
	undo            func()
}

func (x trouble) String() string { return fmt.Sprintf("%s %s %s", x.part, x.node, x.how) }

// wish is what people asked for last. What was not acknowledged may have been
// taken over, now or later: a stopped root reads it when it goes on.
type wish struct {
	mark                    int // of the last apply that was tried
	marks, replicas         map[int]bool
	lateMarks, lateReplicas map[int]bool
}

func (w *wish) ask(what map[int]bool, late map[int]bool, v int, acknowledged bool) {
	if acknowledged {
		clear(what)
		maps.Copy(what, late)
	} else {
		late[v] = true
	}
	what[v] = true
}

// presence of something that is made and deleted.
type presence struct{ mayBe, mayNotBe bool }

func runChaos(t *testing.T, seed uint64) {
	c := &chaos{
		seed: seed, rand: rand.New(rand.NewPCG(seed, 0)),
		wish:  wish{marks: map[int]bool{}, replicas: map[int]bool{}, lateMarks: map[int]bool{}, lateReplicas: map[int]bool{}},
		extra: presence{mayNotBe: true},
	}
	defer func() {
		if t.Failed() && c.world != nil {
			t.Logf("this again: make chaos SEEDS=%d-%d\nwhat was done:\n%s", seed, seed, strings.Join(c.log, "\n"))
			c.keepLogs()
		}
	}()
	c.build(t)
	for range chaosSteps {
		before := c.watched()
		c.step()
		c.look(before)
	}
	c.heal()
	c.settleDown()
	c.steady.close()
	c.endInOrder(t, c.apps()...)
}

// build makes the world.
func (c *chaos) build(t *testing.T) {
	c.links = linksCanFail(t)
	if c.links {
		c.world = onMachines(t)
		for _, node := range chaosDisks {
			c.ownDisk(node)
		}
	} else {
		c.world = emptyWorld(t, newDir(t))
	}
	c.startRoot("--cluster-dead-after", "4s")
	c.addCluster("edge", "--interval", "1s").answers()
	c.addCluster("fog", "--interval", "1s", "--share-details=false").answers()
	c.addWorker("edge", "edge-1", "--label", "safe=yes")
	c.addWorker("edge", "edge-2")
	c.addWorker("fog", secretWorker)
	for name, n := range map[string]int{"edge": 2, "fog": 1} {
		client := c.cluster[name].client()
		eventually(t, 20*time.Second, "the workers of "+name+" are ready", func() error {
			list, err := client.Workers.List(context.Background())
			if err != nil {
				return err
			}
			ready := 0
			for _, v := range list {
				if v.Status == "ready" {
					ready++
				}
			}
			return differs("ready workers", ready, n)
		})
	}
	c.root.apply(steadyApp)
	eventually(t, 15*time.Second, "the gateway routes", func() error {
		_, err := fetch(c.worker["edge-1"].gateway, steadyHost, "/whoami")
		return err
	})
	c.steady = beginStream(t, c.worker["edge-1"].gateway, steadyHost)
	eventually(t, 15*time.Second, "the stream begins", func() error { return c.steady.beyond(0) })
	c.apply()
	c.root.holds("chaos", 30*time.Second)
}

// linksCanFail says whether nodes can have machines of their own.
func linksCanFail(t *testing.T) bool {
	err := whyNoMachines()
	if err != nil && os.Getenv("VERGE_CI_NO_SKIP") != "" {
		t.Fatalf("machines with networks of their own cannot be made: %v", err)
	}
	if err != nil {
		t.Logf("SKIPPED, links do not fail: machines with networks of their own cannot be made: %v", err)
	}
	return err == nil
}

const steadyHost = "steady.test"

// steadyApp never changes, on a worker whose engine is never hurt.
const steadyApp = `application: steady
services:
  main:
    command: [testprogram]
    replace_after: 1h
    affinity: {labels: {safe: "yes"}}
    ports:
      - name: http
        ingress: {host: ` + steadyHost + `}
    readiness:
      http: {path: /healthz}
`

func chaosApp(mark, replicas int) string {
	return fmt.Sprintf(`application: chaos
services:
  front:
    command: [testprogram]
    env: {MARK: "%d"}
    replicas: %d
    replace_after: 2s
    restart: {max_restarts: 1000}
    stop: {grace: 1s}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
      interval: 500ms
      timeout: 500ms
`, mark, replicas, chaosHost)
}

const extraApp = `application: extra
services:
  main:
    command: [testprogram]
    stop: {signal: KILL}
`

func (c *chaos) say(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf("%s %s", time.Now().Format("05.000"), fmt.Sprintf(format, args...)))
}

// hurt says whether something is wrong with a node now.
func (c *chaos) hurt(node string) bool {
	return slices.ContainsFunc(c.trouble, func(x trouble) bool { return x.node == node })
}

// step does one bad or good thing, or asks for something, and waits a moment.
func (c *chaos) step() {
	c.t.Helper()
	switch n := c.rand.IntN(10); {
	case n < 4 && len(c.trouble) < mostTrouble:
		c.fail()
	case n < 7 && len(c.trouble) > 0:
		i := c.rand.IntN(len(c.trouble))
		c.say("no longer: %s", c.trouble[i])
		c.undo(i)
	default:
		c.change()
	}
	c.pause(time.Duration(200+c.rand.IntN(1300)) * time.Millisecond)
}

// pause lets d pass; there is nothing to wait for but time.
func (c *chaos) pause(d time.Duration) {
	select {
	case <-c.t.Context().Done():
	case <-time.After(d):
	}
}

// fail begins a failure at a node that has none.
func (c *chaos) fail() {
	c.t.Helper()
	type place struct{ part, node string }
	var all []place
	for _, p := range []place{
		{"root", "root"}, {"cluster", "edge"}, {"cluster", "fog"},
		{"worker", "edge-2"}, {"worker", secretWorker}, {"engine", "edge-2"}, {"engine", secretWorker},
		{"agent", "edge-1"}, {"agent", "edge-2"}, {"agent", secretWorker}, {"instance", "edge-2"}, {"instance", secretWorker},
	} {
		if !c.hurt(p.node) {
			all = append(all, p)
		}
	}
	hows := failures
	if !c.links {
		hows = []string{killed, stopped}
	}
	for _, node := range chaosDisks {
		if c.links && !c.hurt(node) {
			all = append(all, place{"disk", node})
		}
	}
	p, how := all[c.rand.IntN(len(all))], hows[c.rand.IntN(len(hows))]
	if p.part == "disk" {
		how = full
	}
	var r running
	if p.part == "instance" {
		list := runningIn(c.t, c.worker[p.node].dir)
		ids := slices.Sorted(maps.Keys(list))
		if len(ids) == 0 {
			c.say("nothing runs on %s", p.node)
			return
		}
		r = list[ids[c.rand.IntN(len(ids))]]
	}
	do, undo := c.breakage(p.part, how, p.node, r)
	x := trouble{p.part, how, p.node, undo}
	c.say("%s", x)
	do()
	if how == killed && (p.part == "instance" || p.part == "engine") {
		return // somebody else brings it back
	}
	c.trouble = append(c.trouble, x)
}

func (c *chaos) undo(i int) {
	x := c.trouble[i]
	c.trouble = slices.Delete(c.trouble, i, i+1)
	x.undo()
}

// change asks for something.
func (c *chaos) change() {
	switch n := c.rand.IntN(12); {
	case n >= 10:
		c.exec()
	case n < 4:
		c.apply()
	case n < 6:
		replicas := c.rand.IntN(5)
		c.asks++
		err := c.ask(func(ctx context.Context) error {
			_, err := c.root.client().Services.Scale(ctx, "chaos", "front", replicas)
			return err
		})
		c.say("scale to %d: %v", replicas, err)
		c.wish.ask(c.wish.replicas, c.wish.lateReplicas, replicas, err == nil)
	case n < 7:
		err := c.ask(func(ctx context.Context) error {
			_, err := c.root.client().Services.Restart(ctx, "chaos", apiv1.RestartRequest{Service: "front", Reason: "chaos"})
			return err
		})
		c.say("restart: %v", err)
	case n < 9:
		c.makeOrDelete()
	default:
		c.cordon()
	}
}

// ask gives a request as long as a person may wait.
func (c *chaos) ask(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return f(ctx)
}

// apply applies the application with another mark and number of replicas.
func (c *chaos) apply() {
	c.wish.mark++
	c.asks++
	mark, replicas := c.wish.mark, c.rand.IntN(5)
	err := c.ask(func(ctx context.Context) error {
		_, err := c.root.client().Applications.Apply(ctx, []byte(chaosApp(mark, replicas)), false)
		return err
	})
	c.say("apply mark %d with %d replicas: %v", mark, replicas, err)
	c.wish.ask(c.wish.marks, c.wish.lateMarks, mark, err == nil)
	c.wish.ask(c.wish.replicas, c.wish.lateReplicas, replicas, err == nil)
}

// makeOrDelete makes another application, or deletes it.
func (c *chaos) makeOrDelete() {
	want := c.extra.mayNotBe
	err := c.ask(func(ctx context.Context) error {
		if want {
			_, err := c.root.client().Applications.Apply(ctx, []byte(extraApp), false)
			return err
		}
		return c.root.client().Applications.Delete(ctx, "extra")
	})
	c.say("extra is wanted %v: %v", want, err)
	switch {
	case err != nil:
		c.extra = presence{true, true} // from now on nobody knows
	case !c.extra.mayBe || !c.extra.mayNotBe:
		c.extra = presence{want, !want}
	}
}

// cordon cordons or drains a worker, or takes that back.
func (c *chaos) cordon() {
	client := c.cluster["edge"].client()
	what := []string{"cordon", "drain", "uncordon"}[c.rand.IntN(3)]
	err := c.ask(func(ctx context.Context) error {
		if what == "uncordon" {
			return client.Workers.Uncordon(ctx, "edge", "edge-2")
		}
		_, err := client.Workers.Cordon(ctx, "edge", "edge-2", rpc.CordonRequest{Reason: "chaos", Drain: what == "drain"})
		return err
	})
	c.say("%s edge-2: %v", what, err)
}

// exec runs a command beside the instance that is never hurt, through the link of
// its worker, if that and its cluster are well.
func (c *chaos) exec() {
	c.t.Helper()
	if c.hurt("edge") || c.hurt("edge-1") {
		c.say("no exec: the way there is hurt")
		return
	}
	begun := time.Now()
	var r result
	// Where the way was hurt a moment ago the worker has to be heard of first.
	eventually(c.t, 20*time.Second, "a command runs beside the instance", func() error {
		if r = verge(c.t, c.cluster["edge"].contextFile(), "exec", "steady.main.0", "--", "sh", "-c", "echo it runs; exit 7"); r.code != 7 || r.out != "it runs\n" {
			return fmt.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
		}
		return nil
	})
	c.say("exec: %s", time.Since(begun).Round(time.Millisecond))
}

// heal ends all trouble, in any order.
func (c *chaos) heal() {
	c.t.Helper()
	for len(c.trouble) > 0 {
		i := c.rand.IntN(len(c.trouble))
		c.say("no longer, to end with: %s", c.trouble[i])
		c.undo(i)
	}
}

// apps that are there in the end.
func (c *chaos) apps() []string {
	list, err := c.root.client().Applications.List(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		out = append(out, a.Name)
	}
	return out
}
