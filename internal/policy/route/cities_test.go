package route_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

// cities is the matrix of testdata/ORIGIN.md in milliseconds, with the names.
func cities(t testing.TB) (names []string, ms [][]float64) {
	t.Helper()
	data, err := os.ReadFile("testdata/cities.csv")
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names = rows[0][1:]
	for _, row := range rows[1:] {
		var line []float64
		for _, cell := range row[1:] {
			x, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			line = append(line, x)
		}
		ms = append(ms, line)
	}
	return names, ms
}

// fromCity is the view of a router in one city of a service with a replica in each.
func fromCity(names []string, ms [][]float64, city int) route.View {
	var list []route.Endpoint
	for j, name := range names {
		list = append(list, route.Endpoint{
			ID: name, Ready: true, Local: j == city, Ordinal: j,
			RTT: time.Duration(ms[city][j] * 1e6), Source: route.Measured,
		})
	}
	return route.NewView(uint64(city), list)
}

func exponential(alpha float64, localrtt time.Duration) api.Policy {
	return api.Policy{Name: api.PolicyProximity, Alpha: alpha, Beta: 0.5, Decay: api.DecayExponential, LocalRTT: api.Duration(localrtt)}
}

// imbalance is the mean, over all sets of k senders, of the imbalance.
func imbalance(t *testing.T, p api.Policy, k int) float64 {
	t.Helper()
	names, ms := cities(t)
	sum, sets := 0.0, 0
	for set := range 1 << len(names) {
		if bits.OnesCount(uint(set)) != k {
			continue
		}
		var from []route.From
		for i := range names {
			if set>>i&1 == 1 {
				from = append(from, route.From{Name: names[i], Share: 1, View: fromCity(names, ms, i)})
			}
		}
		got, err := route.Predict(p, from)
		if err != nil {
			t.Fatal(err)
		}
		sum += got.Imbalance
		sets++
	}
	return sum / float64(sets)
}

func TestImbalanceOfThePaper(t *testing.T) {
	for k, want := range map[int]float64{1: 0.2563, 2: 0.1731, 11: 0.0024} {
		if got := imbalance(t, exponential(1, 3*time.Millisecond), k); math.Abs(got-want) > 0.00005 {
			t.Errorf("%d senders: %.5f, want %.4f", k, got, want)
		}
	}
}

func TestImbalanceIsLinearInAlpha(t *testing.T) {
	most := imbalance(t, exponential(1, 3*time.Millisecond), 2)
	for _, alpha := range []float64{0, 0.2, 0.5, 0.8} {
		if got := imbalance(t, exponential(alpha, 3*time.Millisecond), 2); math.Abs(got-alpha*most) > 1e-9 {
			t.Errorf("alpha %g: %v, want %v", alpha, got, alpha*most)
		}
	}
}

func TestMeanLatencyFromLondon(t *testing.T) {
	names, ms := cities(t)
	london := slices.Index(names, "London")
	for _, c := range []struct {
		alpha    float64
		localrtt time.Duration
		want     float64 // ms
	}{
		{0, 3 * time.Millisecond, 14.48},
		{1, 300 * time.Microsecond, 1.04}, // without the correction of the own latency, as the paper's figure
		{1, 3 * time.Millisecond, 2.26},
	} {
		got, err := route.Predict(exponential(c.alpha, c.localrtt), []route.From{{Share: 1, View: fromCity(names, ms, london)}})
		if err != nil {
			t.Fatal(err)
		}
		if d := float64(got.Mean) / 1e6; math.Abs(d-c.want) > 0.005 {
			t.Errorf("alpha %g, localrtt %v: %.3f ms, want %.2f", c.alpha, c.localrtt, d, c.want)
		}
		if got.Means[0] != got.Mean || got.Unknown > 1e-12 || math.Abs(got.Even-1.0/11) > 1e-12 {
			t.Errorf("%+v", got)
		}
	}
}

// inverse does not depend on beta; the shares of the others fall the steeper the
// larger it is.
func TestBeta(t *testing.T) {
	names, ms := cities(t)
	v := fromCity(names, ms, 0)
	nearest := func(decay string, beta float64) float64 {
		p, err := route.New(api.Policy{Name: api.PolicyProximity, Alpha: 1, Beta: beta, Decay: decay, LocalRTT: api.Duration(3 * time.Millisecond)}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Max(p.Weights(v))
	}
	if a, b := nearest(api.DecayInverse, 0.1), nearest(api.DecayInverse, 100); a != b {
		t.Errorf("inverse: %v and %v", a, b)
	}
	for _, decay := range []string{api.DecayPower, api.DecayExponential} {
		if a, b := nearest(decay, 0.5), nearest(decay, 2); a >= b {
			t.Errorf("%s: the nearest has %v with beta 0.5, %v with 2", decay, a, b)
		}
	}
}

func ExamplePredict() {
	london := []route.Endpoint{
		{ID: "here", Ready: true, Local: true, RTT: 300 * time.Microsecond, Source: route.Measured},
		{ID: "near", Ready: true, RTT: 4 * time.Millisecond, Source: route.Measured},
		{ID: "far", Ready: true, RTT: 38 * time.Millisecond, Source: route.Measured},
	}
	for _, alpha := range []float64{0, 1} {
		p := api.Policy{Name: api.PolicyProximity, Alpha: alpha, Beta: 0.5, Decay: api.DecayExponential}
		got, err := route.Predict(p, []route.From{{Share: 1, View: route.NewView(1, london)}})
		if err != nil {
			panic(err)
		}
		fmt.Printf("alpha %g: %.1f ms, imbalance %.2f\n", alpha, float64(got.Mean)/1e6, got.Imbalance)
	}
	// Output:
	// alpha 0: 14.1 ms, imbalance 0.00
	// alpha 1: 2.0 ms, imbalance 0.24
}
