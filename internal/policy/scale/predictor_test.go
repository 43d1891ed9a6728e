package scale

import (
	"compress/gzip"
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// azure are calls per minute of 50 functions over a day.
func azure(t testing.TB) [][]float64 {
	t.Helper()
	f, err := os.Open("../../sim/trace/azure.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out [][]float64
	for _, row := range rows[1:] {
		var v []float64
		for _, cell := range row[2:] {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			v = append(v, x)
		}
		out = append(out, v)
	}
	return out
}

// reduction of the mean absolute error against the naive model's, as a share of it.
func reduction(v []float64, horizon int) float64 {
	p := NewPredictor()
	ours, naive := 0.0, 0.0
	said := make([]float64, len(v))
	for i, x := range v {
		if i >= horizon {
			ours += math.Abs(x - said[i-horizon])
			naive += math.Abs(x - v[i-horizon])
		}
		said[i] = p.Observe(x, horizon).Rate
	}
	if naive == 0 {
		return 0
	}
	return 1 - ours/naive
}

// summary of reductions, as the paper has them.
type summary struct {
	traces, better, worse  int
	betterBy, worseBy, all float64
}

func summarise(traces [][]float64, horizon int) summary {
	s := summary{traces: len(traces)}
	for _, v := range traces {
		switch r := reduction(v, horizon); {
		case r > 0:
			s.better++
			s.betterBy += r
			s.all += r
		case r < 0:
			s.worse++
			s.worseBy -= r
			s.all += r
		}
	}
	s.betterBy /= float64(max(1, s.better))
	s.worseBy /= float64(max(1, s.worse))
	s.all /= float64(len(traces))
	return s
}

// The constants were chosen on every second trace; what is required holds on the others, and
// on the burstiest quarter.
func TestPredictorOnRealTraces(t *testing.T) {
	traces := azure(t)
	var chosen, unseen [][]float64
	for i, v := range traces {
		if i%2 == 0 {
			chosen = append(chosen, v)
		} else {
			unseen = append(unseen, v)
		}
	}
	for _, x := range []struct {
		name          string
		traces        [][]float64
		horizon       int
		better, worse float64 // shares of the traces
		by, less      float64
	}{
		{"chosen on", chosen, 1, 0.96, 0.04, 0.29, 0.01},
		{"unseen", unseen, 1, 0.92, 0.08, 0.25, 0.015},
		{"bursty half", traces[25:], 1, 0.92, 0.08, 0.25, 0.015},
		{"burstiest quarter", traces[38:], 1, 0.83, 0.17, 0.3, 0.015},
		{"unseen, three ahead", unseen, 3, 0.88, 0.1, 0.25, 0.015},
		{"unseen, five ahead", unseen, 5, 0.8, 0.1, 0.22, 0.015},
		{"chosen on, five ahead", chosen, 5, 0.8, 0.1, 0.2, 0.04},
	} {
		s := summarise(x.traces, x.horizon)
		t.Logf("%-21s %+v", x.name, s)
		n := float64(s.traces)
		if float64(s.better) < x.better*n || float64(s.worse) > x.worse*n || s.betterBy < x.by || s.worseBy > x.less {
			t.Errorf("%s: better on %d of %d by %.1f %%, worse on %d by %.1f %%", x.name, s.better, s.traces, 100*s.betterBy,
				s.worse, 100*s.worseBy)
		}
	}
}

// What the constants were not chosen on: pieces of days in another order, days run
// backwards, fewer calls of the same functions, further ahead.
func TestPredictorElsewhere(t *testing.T) {
	var traces [][]float64
	for i, v := range azure(t) {
		if i%5 == 1 {
			traces = append(traces, v)
		}
	}
	r := rand.New(rand.NewPCG(5, 5))
	change := func(f func(v []float64) []float64) (out [][]float64) {
		for _, v := range traces {
			out = append(out, f(v))
		}
		return out
	}
	shuffled := func(piece int) func(v []float64) []float64 {
		return func(v []float64) (out []float64) {
			for _, k := range r.Perm(len(v) / piece) {
				out = append(out, v[k*piece:(k+1)*piece]...)
			}
			return out
		}
	}
	for _, x := range []struct {
		name    string
		traces  [][]float64
		horizon int
		better  int
		by      float64
	}{
		{"pieces of six hours", change(shuffled(360)), 1, 8, 0.18},
		{"pieces of two hours", change(shuffled(120)), 1, 8, 0.16},
		{"backwards", change(func(v []float64) (out []float64) {
			for i := range v {
				out = append(out, v[len(v)-1-i])
			}
			return out
		}), 1, 8, 0.18},
		{"a tenth of the calls", change(func(v []float64) (out []float64) {
			for _, y := range v {
				out = append(out, float64(binomial(r, y, 0.1)))
			}
			return out
		}), 1, 8, 0.18},
		{"three ahead", traces, 3, 8, 0.18},
		{"the first half of the day", change(func(v []float64) []float64 { return v[:720] }), 1, 7, 0.18},
	} {
		s := summarise(x.traces, x.horizon)
		t.Logf("%-26s %+v", x.name, s)
		if s.better < x.better || s.betterBy < x.by || s.worseBy > 0.08 {
			t.Errorf("%s: %+v", x.name, s)
		}
	}
}

// binomial draws how many of n calls are kept.
func binomial(r *rand.Rand, n, p float64) int {
	if n > 50 {
		return max(0, int(math.Round(n*p+math.Sqrt(n*p*(1-p))*r.NormFloat64())))
	}
	k := 0
	for range int(n) {
		if r.Float64() < p {
			k++
		}
	}
	return k
}

func TestPredictorLearnsAPeriod(t *testing.T) {
	p := NewPredictor()
	wrong, naive := 0.0, 0.0
	said, last := 0.0, 0.0
	for i := range 3000 {
		v := 100 + 80*math.Sin(2*math.Pi*float64(i)/30)
		if i > 1500 {
			wrong += math.Abs(v - said)
			naive += math.Abs(v - last)
		}
		said, last = p.Observe(v, 1).Rate, v
	}
	if wrong > 0.2*naive {
		t.Errorf("on a sine after 50 periods: %.3g of the naive model's error", wrong/naive)
	}
}

// A rate in other units is the same rate.
func TestPredictorScales(t *testing.T) {
	v := azure(t)[30]
	want := reduction(v, 1)
	for _, unit := range []float64{1e-4, 1e5} {
		scaled := make([]float64, len(v))
		for i := range v {
			scaled[i] = v[i] * unit
		}
		if got := reduction(scaled, 1); math.Abs(got-want) > 0.01 {
			t.Errorf("rates times %v: better by %.4f, else by %.4f", unit, got, want)
		}
	}
}

func TestPredictorBadInput(t *testing.T) {
	p := NewPredictor()
	r := rand.New(rand.NewPCG(9, 9))
	bad := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 1e300, 0, 1e12, 1e-300}
	for i := range 3000 {
		v := r.Float64() * 100
		if i%7 == 0 {
			v = bad[r.IntN(len(bad))]
		}
		q := p.Observe(v, r.IntN(20)-1)
		if math.IsNaN(q.Rate) || math.IsInf(q.Rate, 0) || q.Rate < 0 || q.Rate > 1e12 {
			t.Fatalf("epoch %d, after %v: %+v", i, v, q)
		}
	}
	// It finds back.
	var q Prediction
	for range 3000 {
		q = p.Observe(50, 1)
	}
	if math.Abs(q.Rate-50) > 1 {
		t.Errorf("after 3,000 epochs at 50: %+v", q)
	}
	for _, x := range p.experts {
		if r, ok := x.(*regression); ok {
			r.weights[3], r.inverse[5] = math.NaN(), math.Inf(1)
		}
	}
	for i := range 200 {
		if q = p.Observe(50+float64(i%2), 1); math.IsNaN(q.Rate) {
			t.Fatalf("%d epochs after a weight was no number: %+v", i, q)
		}
	}
	if math.Abs(q.Rate-50) > 0.1 {
		t.Errorf("of 50 and 51 in turn, after 51: %+v", q)
	}
}

func TestPredictorIsSmall(t *testing.T) {
	p := NewPredictor()
	for i := range 4000 {
		p.Observe(float64(i%100), 1+i/2000)
	}
	size := 4*(cap(p.history.rates)+cap(p.said)) + 8*(cap(p.weights)+cap(p.initial))
	for _, x := range p.experts {
		size += 128
		switch x := x.(type) {
		case *regression:
			size += 8 * (cap(x.inverse) + cap(x.weights) + cap(x.input) + cap(x.gain))
		case seasonal:
			if x.form == sameAsBefore {
				size += 4 * cap(x.period.errors)
			}
		case *median:
			size += 4 * cap(x.of)
		}
	}
	t.Logf("%d bytes", size)
	if size > 40<<10 {
		t.Errorf("%d bytes", size)
	}
	if n := testing.AllocsPerRun(300, func() { p.Observe(7, 1) }); n != 0 {
		t.Errorf("%v allocations per epoch", n)
	}
}

// A new horizon must not be judged by what was said for the old one.
func TestPredictorChangesHorizon(t *testing.T) {
	p := NewPredictor()
	wave := func(i int) float64 { return 100 + 80*math.Sin(2*math.Pi*float64(i)/30) }
	said := map[int]float64{}
	wrong, naive := 0.0, 0.0
	for i := range 4000 {
		horizon := 1 + i/200%5
		if v, ok := said[i]; ok && i > 3000 {
			wrong += math.Abs(wave(i) - v)
			naive += math.Abs(wave(i) - wave(i-horizon))
		}
		said[i+horizon] = p.Observe(wave(i), horizon).Rate
	}
	if wrong > 0.2*naive {
		t.Errorf("%.3g of the last value's error", wrong/naive)
	}
}

func BenchmarkPredictor(b *testing.B) {
	v := azure(b)[20]
	p := NewPredictor()
	for i := range 1500 {
		p.Observe(v[i%len(v)], 1)
	}
	b.ResetTimer()
	for i := range b.N {
		p.Observe(v[i%len(v)], 1)
	}
}
