package rival

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

func TestHotCold(t *testing.T) {
	for name, c := range map[string]struct {
		a, b probe
	}{
		"cold before hot":            {probe{rif: 5, latency: time.Second}, probe{rif: 6, latency: ms}},
		"of cold ones the faster":    {probe{rif: 5, latency: ms}, probe{rif: 1, latency: 2 * ms}},
		"of hot ones the less laden": {probe{rif: 6, latency: time.Second}, probe{rif: 7, latency: ms}},
	} {
		if !better(c.a, c.b, 5) || better(c.b, c.a, 5) {
			t.Error(name)
		}
	}
}

// filled pool with pods of these requests in flight, and latencies in the order of the pods.
func filled(rifs ...int) (*pool, []*prequalPeer) {
	o, all := &pool{}, make([]*prequalPeer, len(rifs))
	for i, rif := range rifs {
		all[i] = &prequalPeer{}
		o.add(probe{peer: all[i], rif: rif, latency: time.Duration(i+1) * ms, uses: 2})
	}
	return o, all
}

// left are the pods in the pool, by their index.
func left(o *pool, all []*prequalPeer) (out []int) {
	for _, p := range o.probes {
		out = append(out, slices.Index(all, p.peer))
	}
	return out
}

func TestThreshold(t *testing.T) {
	var rifs []int
	for i := range 10 {
		rifs = append(rifs, i)
	}
	if o, _ := filled(rifs...); o.threshold() != 8 {
		t.Errorf("the ninth of ten is the quantile of 0.84: %d", o.threshold())
	}
}

// A used probe counts the request, and leaves when its budget is spent.
func TestUse(t *testing.T) {
	o, all := filled(0, 0, 0)
	if i := o.best(nil); i != 0 || o.use(i) != all[0] || o.probes[0].rif != 1 {
		t.Fatalf("%+v", o)
	}
	if i := o.best(nil); i != 1 || o.use(i) != all[1] {
		t.Fatalf("the first is hot now: %+v", o)
	}
	if i := o.best(all[2]); i != 0 || o.use(i) != all[0] || !slices.Equal(left(o, all), []int{1, 2}) {
		t.Errorf("both are hot, and the first was used twice: %+v", o)
	}
	if o.best(all[1]) != -1 {
		t.Error("one probe is too few to choose")
	}
}

func TestRemoval(t *testing.T) {
	o, all := filled(0, 9, 0, 0, 0, 0, 0)
	for _, want := range [][]int{{0, 2, 3, 4, 5, 6}, {2, 3, 4, 5, 6}, {2, 3, 4, 5}, {3, 4, 5}} {
		if o.remove(); !slices.Equal(left(o, all), want) {
			t.Fatalf("%v, want %v: the hottest, the oldest, the slowest, the oldest", left(o, all), want)
		}
	}
	o, all = filled(make([]int, poolSize+1)...)
	if l := left(o, all); len(l) != poolSize || l[0] != 1 {
		t.Errorf("a full pool loses its oldest: %v", l)
	}
	o.add(probe{peer: all[5], rif: 3})
	if l := left(o, all); len(l) != poolSize || o.probes[poolSize-1].rif != 3 || slices.Index(l, 5) != poolSize-1 {
		t.Errorf("a new probe replaces that of its pod: %v", l)
	}
}

func TestReuse(t *testing.T) {
	for pods, want := range map[int]float64{16: reuseFew, 24: reuseFew, 32: 4, 100: 2 / 1.52, 10_000: 2 / 1.9952} {
		if got := reuse(pods); math.Abs(got-want) > 1e-9 {
			t.Errorf("%d pods: %v, want %v", pods, got, want)
		}
	}
	r, sum := sim.New(1).Rand("test"), 0
	for range 10_000 {
		n := rounded(1.3, r)
		if n != 1 && n != 2 {
			t.Fatalf("1.3 rounded is %d", n)
		}
		sum += n
	}
	if sum < 12_800 || sum > 13_200 {
		t.Errorf("the mean of 1.3 rounded is %v", float64(sum)/10_000)
	}
}

func TestEstimate(t *testing.T) {
	var a agent
	if a.estimate(3) != 0 {
		t.Error("nothing is known")
	}
	for i := range near {
		a.add(sample{1, 10*ms + time.Duration(i%3)*ms})
		a.add(sample{5, 50*ms + time.Duration(i%3)*ms})
	}
	for rif, want := range map[int]time.Duration{0: 11 * ms, 2: 11 * ms, 4: 51 * ms, 500: 51 * ms} {
		if got := a.estimate(rif); got != want {
			t.Errorf("with %d in flight %v, want %v", rif, got, want)
		}
	}
	for range near {
		a.add(sample{1, 20 * ms})
	}
	if got := a.estimate(1); got != 20*ms {
		t.Errorf("the newest of those equally near: %v", got)
	}
	for range recent {
		a.add(sample{9, 90 * ms})
	}
	if got := a.estimate(1); got != 90*ms {
		t.Errorf("the old ones are forgotten: %v", got)
	}
}

// Probes take the round trip of the link, and are as old as the pool lets them be.
func TestProbesTravel(t *testing.T) {
	w := sim.New(1)
	c := NewPrequal(w, "here", func(string) *sim.Link { return &sim.Link{RTT: 40 * ms} })
	pods := []*sim.Pod{(&sim.Pod{ID: "a", Service: ms}).Start(w), (&sim.Pod{ID: "b", Service: ms}).Start(w)}
	c.Use(pods)
	w.Run(19 * ms)
	pods[0].Take(&sim.Request{Work: 1000}, func(sim.End, scale.Report) {})
	w.Run(20 * ms)
	if len(c.pool.probes) != 0 {
		t.Fatal("no answer can be here")
	}
	w.Run(ms)
	if len(c.pool.probes) != 2 {
		t.Fatalf("%+v", c.pool.probes)
	}
	for _, p := range c.pool.probes {
		if want := map[string]int{"a": 1, "b": 0}[p.peer.pod.ID]; p.rif != want || p.latency != 40*ms || p.at != 40*ms {
			t.Errorf("%s: %+v", p.peer.pod.ID, p)
		}
	}
	at := c.pool.probes[0].at
	w.Run(10 * time.Second)
	for _, p := range c.pool.probes {
		if p.at <= at {
			t.Error("without requests, the pool is stale")
		}
	}
	c.Use(pods[:1])
	for _, p := range c.pool.probes {
		if p.peer.pod != pods[0] {
			t.Error("a pod that is gone stays in the pool")
		}
	}
}
