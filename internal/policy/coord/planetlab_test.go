package coord_test

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/policy/coord/surveyed"
)

// planetLab is the matrix of testdata/ORIGIN.md as it is: with zeros, holes, and
// different values in the two directions.
func planetLab(t testing.TB) [][]time.Duration {
	t.Helper()
	f, err := os.Open("testdata/planetlab.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]time.Duration
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row []time.Duration
		for _, cell := range strings.Fields(lines.Text()) {
			ms, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, time.Duration(ms*1e6))
		}
		out = append(out, row)
	}
	return out
}

func quantile(x []float64, q float64) float64 {
	slices.Sort(x)
	return x[int(q*float64(len(x)-1))]
}

// world is workers that measure each other over a matrix of round trips.
type world struct {
	*surveyed.Workers
	rtt  [][]time.Duration // 0: they cannot reach each other
	wild float64           // share of samples that are ten times too long
}

func newWorld(rtt [][]time.Duration, seed uint64) *world {
	w, rng := &world{rtt: rtt}, rand.New(rand.NewPCG(seed, 10))
	w.Workers = surveyed.New(len(rtt), func(i, j int) time.Duration {
		if rtt[i][j] == 0 && rtt[j][i] != 0 {
			return 1 // what cannot be
		}
		if w.wild > 0 && rng.Float64() < w.wild {
			return 10 * rtt[i][j]
		}
		return rtt[i][j]
	}, seed)
	return w
}

// errors of the estimates of all pairs, relative to truth.
func (w *world) errors(truth [][]time.Duration) []float64 {
	var out []float64
	for i, row := range truth {
		for j, rtt := range row {
			if i != j && rtt > 0 {
				d := w.Tables[i].Own.Point.Distance(w.Tables[j].Own.Point)
				out = append(out, math.Abs(float64(d-rtt))/float64(rtt))
			}
		}
	}
	return out
}

// rightOf is the share of pairs of a worker and a service of 20 replicas in which the
// nearest one (within 10 %) is chosen: of those that the worker has measured the nearest,
// most of them for this service; without any, the nearest by what it knows. Workers that
// have a replica themselves do not count. Probes are those for a service, in the mean.
func (w *world) rightOf(truth [][]time.Duration, services, most int, seed uint64) (share, probes float64) {
	rng := rand.New(rand.NewPCG(seed, 6))
	right, pairs, asked := 0, 0, 0
	for range services {
		replicas := rng.Perm(len(w.Names))[:20]
		for i := range w.Tables {
			if slices.Contains(replicas, i) {
				continue
			}
			ok, n := w.chosen(truth, i, replicas, most)
			if ok {
				right++
			}
			pairs, asked = pairs+1, asked+n
		}
	}
	return float64(right) / float64(pairs), float64(asked) / float64(pairs)
}

func (w *world) chosen(truth [][]time.Duration, i int, replicas []int, most int) (ok bool, probes int) {
	var names []string
	best := time.Duration(math.MaxInt64)
	table := &coord.Table{Own: w.Tables[i].Own, Peers: map[string]*coord.Peer{}}
	for _, j := range replicas {
		if p := w.Tables[i].Peers[w.Names[j]]; p != nil {
			known := *p
			table.Peers[w.Names[j]] = &known
		}
		table.Placed(w.Names[j], w.Tables[j].Own.Point, w.Now)
		names = append(names, w.Names[j])
		if truth[i][j] > 0 {
			best = min(best, truth[i][j])
		}
	}
	for probes < most {
		list := table.Choose(names, 1, w.Now)
		k := slices.IndexFunc(list, func(name string) bool {
			p := table.Peers[name]
			return p.Failures == 0 && !table.Distance(name, w.Now).Measured
		})
		if k < 0 {
			break
		}
		probes++
		if rtt := w.rtt[i][slices.Index(w.Names, list[k])]; table.Observe(list[k], rtt, nil, w.Now) != nil {
			table.Failed(list[k], "no answer", w.Now)
		}
	}
	pick, least := -1, time.Duration(math.MaxInt64)
	for _, j := range replicas {
		d := table.Distance(w.Names[j], w.Now)
		if d.Known && (d.Measured || most == 0) && d.RTT < least {
			pick, least = j, d.RTT
		}
	}
	return pick >= 0 && truth[i][pick] > 0 && float64(truth[i][pick]) <= 1.1*float64(best), probes
}

// nearest checks how often workers choose the nearest replica, by the number of its probes:
// right after the survey, and when all that was measured is too old to route by.
func (w *world) nearest(t *testing.T, truth [][]time.Duration, want map[int]float64) {
	t.Helper()
	e := w.errors(truth)
	t.Logf("%d workers: relative error of coordinates median %.3f, p90 %.3f", len(truth), quantile(e, 0.5), quantile(e, 0.9))
	for _, later := range []time.Duration{0, 2 * coord.Fresh} {
		w.Now = w.Now.Add(later)
		for _, most := range []int{0, 8, coord.PerService, 12} {
			right, probes := w.rightOf(truth, 5, most, 7)
			t.Logf("after %v, %2d probes at most for a service (%.1f): right in %.1f %%", later, most, probes, 100*right)
			if right < want[most] {
				t.Errorf("want %.1f %%", 100*want[most])
			}
		}
	}
}

// After one round, as of a worker that knows of no other, and after those of a survey.
func TestNearestOnPlanetLab(t *testing.T) {
	truth := planetLab(t)
	for _, c := range []struct {
		rounds      int
		median, p90 float64
		want        map[int]float64
	}{
		{1, 0.45, 0.75, map[int]float64{12: 0.85}},
		{coord.Rounds, 0.12, 0.45, map[int]float64{8: 0.95, coord.PerService: 0.97}},
	} {
		w := newWorld(truth, 1)
		w.Survey(c.rounds)
		t.Logf("%d rounds", c.rounds)
		w.nearest(t, truth, c.want)
		if e := w.errors(truth); quantile(e, 0.5) > c.median || quantile(e, 0.9) > c.p90 {
			t.Errorf("errors beyond %.2f and %.2f", c.median, c.p90)
		}
	}
}

// Where coordinates say little, what was measured says more.
func TestNearestWhereNoCoordinatesFit(t *testing.T) {
	for _, n := range []int{99, 300} {
		truth := hostile(n, 1)
		share := violations(truth, 1)
		t.Logf("%d nodes: %.1f %% of triangles are no triangles", n, 100*share)
		if share < 0.25 {
			t.Error("it is not hostile")
		}
		w := newWorld(truth, 1)
		w.Survey(coord.Rounds)
		w.nearest(t, truth, map[int]float64{coord.PerService: 0.88, 12: 0.93})
	}
}

// What a real network has: a twentieth of the round trips is 0, a tenth cannot be
// measured, the directions differ by up to a fifth, and each hundredth sample is
// ten times too long. It does next to no harm.
func TestCoordinatesSurviveDirt(t *testing.T) {
	truth := planetLab(t)[:200]
	rng := rand.New(rand.NewPCG(1, 9))
	dirty := make([][]time.Duration, len(truth))
	for i := range truth {
		truth[i] = truth[i][:len(truth)]
		dirty[i] = slices.Clone(truth[i])
		for j := range dirty[i] {
			switch x := rng.Float64(); {
			case x < 0.05:
				dirty[i][j] = time.Nanosecond
			case x < 0.15:
				dirty[i][j] = 0
			default:
				dirty[i][j] = time.Duration(float64(dirty[i][j]) * (0.9 + 0.2*rng.Float64()))
			}
		}
	}
	var median, p90 [2]float64
	for k, rtt := range [][][]time.Duration{truth, dirty} {
		w := newWorld(rtt, 1)
		if k == 1 {
			w.wild = 0.01
		}
		w.Survey(coord.Rounds)
		errors := w.errors(truth)
		median[k], p90[k] = quantile(errors, 0.5), quantile(errors, 0.9)
		for i, table := range w.Tables {
			if !table.Own.Point.Valid() {
				t.Fatalf("worker %d is at %+v", i, table.Own.Point)
			}
		}
	}
	t.Logf("relative error: clean median %.3f, p90 %.3f; dirty %.3f, %.3f", median[0], p90[0], median[1], p90[1])
	if median[1] > 1.5*median[0] || p90[1] > 1.5*p90[0] {
		t.Error("dirt does more harm than half as much again")
	}
}

// BenchmarkPlanetLab prints what the simulation reaches, with other seeds each
// time: -benchtime 5x is five of them.
func BenchmarkPlanetLab(b *testing.B) {
	truth := planetLab(b)
	var median, p90, right, n float64
	for b.Loop() {
		n++
		w := newWorld(truth, uint64(100+n))
		w.Survey(coord.Rounds)
		errors := w.errors(truth)
		median, p90 = median+quantile(errors, 0.5), p90+quantile(errors, 0.9)
		r, _ := w.rightOf(truth, 10, coord.PerService, uint64(n))
		right += r
	}
	b.ReportMetric(median/n, "median-error")
	b.ReportMetric(p90/n, "p90-error")
	b.ReportMetric(100*right/n, "%nearest-right")
}
