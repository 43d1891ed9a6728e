package hollow

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Hollow workers agree on how far everything is, whoever is asked and whenever, and what
// they measure is what their coordinates say; they lie all over the place.
func TestDistancesAgree(t *testing.T) {
	const workers = 200
	at := func(n int) *Engine {
		return New(engineapi.EngineConfig{Cluster: "edge", Worker: fmt.Sprintf("w-%d", n)}, "test")
	}
	ask := rpc.MeasureAsk{Targets: []string{"example.org", "example.org:443"}}
	for n := range rpc.MaxMeasurePeers {
		ask.Peers = append(ask.Peers, rpc.MeasurePeer{Cluster: "edge", Worker: fmt.Sprintf("w-%d", n)})
	}
	var all []rpc.Measured
	for n := range workers {
		m, err := at(n).Measure(t.Context(), ask)
		if err != nil || m.V != wire.Version || !m.Own.Valid() || len(m.Peers) != len(ask.Peers) ||
			len(m.Targets) != 2 {
			t.Fatalf("%+v, %v", m, err)
		}
		again, err := at(n).Measure(t.Context(), ask)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(m) {
			t.Fatalf("w-%d measures %+v, and then %+v, %v", n, m, again, err)
		}
		all = append(all, m)
	}
	near, sum := 0, 0.0
	for a := range len(ask.Peers) {
		for b := range a {
			ab, ba := all[a].Peers[b].RTT, all[b].Peers[a].RTT
			if ab != ba || time.Duration(ab) != all[a].Own.RTT(&all[b].Own) {
				t.Errorf("from w-%d to w-%d it is %s, back %s, by the coordinates %s", a, b, time.Duration(ab),
					time.Duration(ba), all[a].Own.RTT(&all[b].Own))
			}
		}
	}
	for a := range workers {
		for b := range a {
			d := all[a].Own.RTT(&all[b].Own)
			if sum += d.Seconds(); d < 10*time.Millisecond {
				near++
			}
		}
	}
	// Two points of a square are 0.52 of its side apart on average, and a distance of a
	// fifth of it has some 0.1 of the pairs.
	pairs := float64(workers * (workers - 1) / 2)
	if mean := sum/pairs - 2*access; math.Abs(mean-0.52*wide) > 0.05*wide {
		t.Errorf("they are %.1f ms apart on average, want about %.1f", 1000*mean, 520*wide)
	}
	if part := float64(near) / pairs; part < 0.05 || part > 0.15 {
		t.Errorf("%.3f of the pairs are less than 10 ms apart, want about a tenth", part)
	}
	var p *wire.Problem
	if _, err := at(1).Measure(t.Context(),
		rpc.MeasureAsk{Targets: make([]string, rpc.MaxMeasureTargets+1)}); !errors.As(err, &p) {
		t.Errorf("too many targets: %v", err)
	}
}
