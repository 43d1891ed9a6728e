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

// world is a simulated set of workers that measure each other by the rules of a
// Table, over a matrix of round trips.
type world struct {
	rtt    [][]time.Duration // 0: they cannot reach each other
	tables []*coord.Table
	names  []string
	index  map[string]int
	rng    *rand.Rand
	now    time.Time
	wild   float64 // share of samples that are ten times too long
}

func newWorld(rtt [][]time.Duration, seed uint64) *world {
	w := &world{rtt: rtt, index: map[string]int{}, rng: rand.New(rand.NewPCG(seed, 5)), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i := range rtt {
		name := "w" + strconv.Itoa(i)
		w.names, w.index[name] = append(w.names, name), i
		w.tables = append(w.tables, coord.NewTable(seed^uint64(i)))
	}
	return w
}

// measure is one probe: the other side says where it is.
func (w *world) measure(i, j int) {
	if i == j {
		return
	}
	if w.rtt[i][j] == 0 && w.rtt[j][i] == 0 {
		w.tables[i].Failed(w.names[j], "no answer", w.now)
		return
	}
	at, rtt := w.tables[j].Own.Point, w.rtt[i][j]
	if w.wild > 0 && w.rng.Float64() < w.wild {
		rtt *= 10
	}
	// What is refused changes nothing, as it should.
	_ = w.tables[i].Observe(w.names[j], rtt, &at, w.now)
}

// live: each comes, measures 32 at once, and then one a second for as long, of
// those 32 or whoever else it routes to, who are different for each.
func (w *world) live(d time.Duration) {
	for _, i := range w.rng.Perm(len(w.names)) {
		for _, name := range w.tables[i].Join(w.names, nil, uint64(i), w.now) {
			w.measure(i, w.index[name])
		}
	}
	for range int(d / time.Second) {
		w.now = w.now.Add(time.Second)
		for i := range w.names {
			w.measure(i, w.rng.IntN(len(w.names)))
		}
	}
}

// errors of the estimates of all pairs, relative to truth.
func (w *world) errors(truth [][]time.Duration) []float64 {
	var out []float64
	for i, row := range truth {
		for j, rtt := range row {
			if i != j && rtt > 0 {
				d := w.tables[i].Own.Point.Distance(w.tables[j].Own.Point)
				out = append(out, math.Abs(float64(d-rtt))/float64(rtt))
			}
		}
	}
	return out
}

// rightOf is the share of pairs of a worker and a service of 20 replicas in which
// the nearest (within 10 %) is the one that is chosen: of those that the worker
// measures, which are most at most, the nearest; without any, the nearest by
// coordinates. Workers that have a replica themselves do not count.
func (w *world) rightOf(truth [][]time.Duration, services, most int, seed uint64) float64 {
	rng := rand.New(rand.NewPCG(seed, 6))
	right, pairs := 0, 0
	for range services {
		replicas := rng.Perm(len(w.names))[:20]
		for i, table := range w.tables {
			if slices.Contains(replicas, i) {
				continue
			}
			if w.chosen(truth, i, replicas, table, most) {
				right++
			}
			pairs++
		}
	}
	return float64(right) / float64(pairs)
}

func (w *world) chosen(truth [][]time.Duration, i int, replicas []int, table *coord.Table, most int) bool {
	fresh := coord.NewTable(0) // it has never measured these
	fresh.Own = table.Own
	var names []string
	best := time.Duration(math.MaxInt64)
	for _, j := range replicas {
		fresh.Told(w.names[j], w.tables[j].Own.Point, w.now)
		names = append(names, w.names[j])
		if truth[i][j] > 0 {
			best = min(best, truth[i][j])
		}
	}
	pick, least := -1, time.Duration(math.MaxInt64)
	if most == 0 {
		for _, j := range replicas {
			if d := fresh.Distance(w.names[j], w.now); d.RTT < least {
				pick, least = j, d.RTT
			}
		}
	} else {
		measured := fresh.Choose(names, 1, w.now)
		for _, name := range measured[:min(most, len(measured))] {
			if j := w.index[name]; w.rtt[i][j] > 0 && w.rtt[i][j] < least {
				pick, least = j, w.rtt[i][j]
			}
		}
	}
	return pick >= 0 && truth[i][pick] > 0 && float64(truth[i][pick]) <= 1.1*float64(best)
}

func TestCoordinatesOnPlanetLab(t *testing.T) {
	truth := planetLab(t)
	w := newWorld(truth, 1)
	w.live(300 * time.Second)
	errors := w.errors(truth)
	median, p90 := quantile(errors, 0.5), quantile(errors, 0.9)
	t.Logf("%d workers: relative error median %.3f, p90 %.3f", len(truth), median, p90)
	if median > 0.10 || p90 > 0.50 {
		t.Errorf("median %.3f, p90 %.3f; the bounds are 0.10 and 0.50", median, p90)
	}
	for _, most := range []int{0, 2, 4, 8, coord.PerService} {
		right := w.rightOf(truth, 10, most, 7)
		t.Logf("%2d of 20 replicas measured: the nearest is chosen by %.1f %%", most, 100*right)
		if most == coord.PerService && right < 0.95 {
			t.Errorf("right in %.3f of the cases, want 0.95", right)
		}
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
		w.live(300 * time.Second)
		errors := w.errors(truth)
		median[k], p90[k] = quantile(errors, 0.5), quantile(errors, 0.9)
		for i, table := range w.tables {
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
		w.live(300 * time.Second)
		errors := w.errors(truth)
		median, p90 = median+quantile(errors, 0.5), p90+quantile(errors, 0.9)
		right += w.rightOf(truth, 10, coord.PerService, uint64(n))
	}
	b.ReportMetric(median/n, "median-error")
	b.ReportMetric(p90/n, "p90-error")
	b.ReportMetric(100*right/n, "%nearest-right")
}
