package coord_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/internal/policy/coord"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(x float64) coord.Point {
	return coord.Point{Vec: [coord.Dimensions]float64{x}, Height: 1e-5, Error: 0.3}
}

// Whatever others say and whatever is measured, the own place stays possible, and
// another node can believe it.
func TestNothingMakesAnImpossiblePlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), -1e300, 99, -99, 1e-300}))
		s := coord.NewState(rapid.Uint64().Draw(t, "seed"))
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			o := coord.Point{Height: math.Abs(number.Draw(t, "height")), Adjustment: number.Draw(t, "adjustment"), Error: math.Abs(number.Draw(t, "error"))}
			for i := range o.Vec {
				o.Vec[i] = number.Draw(t, "x")
			}
			rtt := rapid.OneOf(rapid.Int64Range(0, int64(time.Second)), rapid.SampledFrom([]int64{-1, 0, 1, math.MaxInt64, math.MinInt64})).Draw(t, "rtt")
			next, err := s.Step(o, time.Duration(rtt))
			if err != nil && next != s {
				t.Fatal("a step that was refused changed the state")
			}
			if s = next; !s.Point.Valid() || !(s.Drift >= 0 && s.Drift <= 1) {
				t.Fatalf("%+v", s)
			}
			if o.Valid() && s.Point.Distance(o) < coord.MinRTT {
				t.Fatalf("a distance of %v", s.Point.Distance(o))
			}
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var read coord.State
		if err := json.Unmarshal(text, &read); err != nil || coord.Restored(read, 1) != s {
			t.Fatalf("written and read again: %v", err)
		}
	})
}

func TestTwoNodesFindTheirDistance(t *testing.T) {
	a, b := coord.NewState(1), coord.NewState(2)
	for range 200 {
		a, _ = a.Step(b.Point, 40*time.Millisecond)
		b, _ = b.Step(a.Point, 40*time.Millisecond)
	}
	if d := a.Point.Distance(b.Point); d < 39*time.Millisecond || d > 41*time.Millisecond {
		t.Errorf("%v, want 40ms", d)
	}
	if coord.Restored(coord.State{Next: -1}, 3) != coord.NewState(3) {
		t.Error("an impossible state was restored")
	}
}

func TestShortForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-100, 100)
		p := coord.Point{Height: rapid.Float64Range(0, 100).Draw(t, "height"), Adjustment: number.Draw(t, "adjustment"),
			Error: rapid.Float64Range(0, 1.5).Draw(t, "error")}
		for i := range p.Vec {
			p.Vec[i] = number.Draw(t, "x")
		}
		got, ok := coord.FromShort(p.Short())
		if !ok || got.Moved(p) > 5e-6 || math.Abs(got.Error-p.Error) > 1e-3 {
			t.Fatalf("%+v, %v, want %+v", got, ok, p)
		}
	})
	for _, short := range [][]int32{nil, {1}, make([]int32, 12), {0, 0, 0, 0, 0, 0, 0, 0, -1, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1501}} {
		if p, ok := coord.FromShort(short); ok {
			t.Errorf("%v: %+v", short, p)
		}
	}
}

func TestMeasuredWhileFreshThenEstimated(t *testing.T) {
	table := coord.NewTable(1)
	if d := table.Distance("b", epoch); d.Known {
		t.Fatalf("%+v of nobody", d)
	}
	p := at(0.05)
	for k, ms := range []int{30, 20, 26, 24, 25} {
		if err := table.Observe("b", time.Duration(ms)*time.Millisecond, &p, epoch.Add(time.Duration(k)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	last := epoch.Add(4 * time.Second)
	if d := table.Distance("b", last.Add(coord.Fresh)); !d.Measured || d.RTT != 20*time.Millisecond || !d.At.Equal(last) {
		t.Errorf("while fresh: %+v", d)
	}
	if d := table.Distance("b", last.Add(coord.Fresh+1)); d.Measured || !d.Known || d.RTT != 20*time.Millisecond {
		t.Errorf("later: %+v", d)
	}
	if d := table.Distance("b", last.Add(coord.Lasting+1)); d.Measured || !d.Known || d.RTT != table.Estimate("b") {
		t.Errorf("much later: %+v", d)
	}
	// A path that has become longer shows when the shorter samples are gone.
	for k := range 5 {
		if err := table.Observe("b", 50*time.Millisecond, nil, last.Add(time.Duration(k)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if d := table.Distance("b", last.Add(5*time.Second)); d.RTT != 50*time.Millisecond {
		t.Errorf("after the path changed: %+v", d)
	}
	if err := table.Observe("b", 0, &p, last); err == nil {
		t.Error("a round trip of 0 was taken")
	}
	// One that never said where it is: an old measurement is better than nothing.
	if err := table.Observe("c", 7*time.Millisecond, nil, epoch); err != nil {
		t.Fatal(err)
	}
	if d := table.Distance("c", epoch.Add(time.Hour)); d.Measured || !d.Known || d.RTT != 7*time.Millisecond {
		t.Errorf("old: %+v", d)
	}
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("edge/w%d", i))
	}
	return out
}

func TestWhomToMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := coord.NewTable(1)
		all := names(rapid.IntRange(0, 100).Draw(t, "n"))
		for _, name := range all {
			switch rapid.IntRange(0, 3).Draw(t, "known") {
			case 1:
				table.Told(name, at(rapid.Float64Range(0, 0.2).Draw(t, "x")), epoch)
			case 2:
				p := at(rapid.Float64Range(0, 0.2).Draw(t, "x"))
				_ = table.Observe(name, time.Duration(rapid.Int64Range(1e5, 1e8).Draw(t, "rtt")), &p, epoch)
			case 3:
				table.Failed(name, "no answer", epoch)
			}
		}
		list := table.Choose(all, rapid.Uint64().Draw(t, "seed"), epoch)
		if n := min(len(all), coord.PerService); len(list) < n || len(list) > max(n, coord.AtOnce) {
			t.Fatalf("%d of %d", len(list), len(all))
		}
		if s := slices.Sorted(slices.Values(list)); len(slices.Compact(s)) != len(list) {
			t.Fatalf("somebody twice: %v", list)
		}
	})
}

// A worker without a place measures many at once, and then the nearest of those of whom it is
// told where they are.
func TestFirstUseOfALargeService(t *testing.T) {
	table, all := coord.NewTable(1), names(200)
	rtt := func(k int) time.Duration { return time.Duration(1+k%50) * time.Millisecond }
	place := func(k int) coord.Point { return at(rtt(k).Seconds()) }
	for k, name := range all {
		table.Placed(name, place(k), epoch)
	}
	list, when := table.Due([][]string{all}, time.Time{}, 1, epoch)
	if len(list) != coord.AtOnce || when.After(epoch) {
		t.Fatalf("%d at once, at %v", len(list), when)
	}
	for _, name := range list {
		k := slices.Index(all, name)
		p := place(k)
		if err := table.Observe(name, rtt(k), &p, epoch); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		if n := len(table.Choose(all, seed, epoch)); n != coord.PerService {
			t.Fatalf("then %d", n)
		}
	}
	// Where the peer itself said that it is counts for longer than what its cluster says.
	table.Placed(list[0], at(9), epoch.Add(time.Minute))
	if table.Peers[list[0]].Point == at(9) {
		t.Error("a cluster was believed before the peer itself")
	}
	table.Placed(list[0], at(9), epoch.Add(2*coord.Lasting))
	if table.Peers[list[0]].Point != at(9) {
		t.Error("what a peer said long ago was kept")
	}
	for k := range coord.MaxPeers {
		table.Placed(fmt.Sprint("far", k), at(0.1), epoch)
	}
	if n := len(table.Peers); n > coord.MaxPeers/2 {
		t.Errorf("%d peers are remembered of whom nothing was heard", n)
	}
}

func TestRoundsReachAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(2, 300).Draw(t, "n"), rapid.IntRange(1, 40).Draw(t, "most")
		self := rapid.IntRange(0, n-1).Draw(t, "self")
		seen := map[int]bool{}
		for round := 0; len(seen) < n-1; round++ {
			for _, k := range coord.Round(self, n, round, most) {
				if k == self || k < 0 || k >= n {
					t.Fatalf("%d of %d measures %d", self, n, k)
				}
				if seen[k] && (round+1)*most <= n-1 {
					t.Fatalf("%d is measured again in round %d", k, round)
				}
				seen[k] = true
			}
			if round > n {
				t.Fatalf("%d of %d measures %d others in %d rounds", self, n, len(seen), round)
			}
		}
	})
	if list := coord.Round(0, 1, 0, 32); len(list) != 0 {
		t.Errorf("one alone measures %v", list)
	}
}

func TestNextIsWhoWasMeasuredLongestAgo(t *testing.T) {
	table := coord.NewTable(1)
	if _, _, ok := table.Next(nil, epoch); ok {
		t.Error("somebody of nobody")
	}
	for k, name := range []string{"b", "a"} {
		for range 5 {
			_ = table.Observe(name, time.Millisecond, nil, epoch.Add(time.Duration(k)*time.Second))
		}
	}
	_ = table.Observe("d", time.Millisecond, nil, epoch.Add(time.Second))
	table.Failed("c", "no answer", epoch)
	now := epoch.Add(5 * time.Second)
	for _, c := range []struct {
		wanted []string
		name   string
		at     time.Time
	}{
		{[]string{"a", "b"}, "b", epoch.Add(coord.StableMin)},
		{[]string{"a", "b", "new"}, "new", now},
		{[]string{"a", "d"}, "d", now}, // of which there is one sample only
		{[]string{"c"}, "c", epoch.Add(2 * coord.StableMin)},
		{[]string{"a", "c"}, "a", epoch.Add(time.Second + coord.StableMin)},
	} {
		if name, at, ok := table.Next(c.wanted, now); !ok || name != c.name || !at.Equal(c.at) {
			t.Errorf("%v: %s at %v, want %s at %v", c.wanted, name, at.Sub(epoch), c.name, c.at.Sub(epoch))
		}
	}
}

func TestPauseKeepsAllFresh(t *testing.T) {
	table := coord.NewTable(1)
	if p := table.Pause(1, 1); p != coord.Moving {
		t.Errorf("while moving: %v", p)
	}
	table.Own.Drift = 0
	for _, wanted := range []int{0, 1, 12, 100, 1000} {
		p := table.Pause(wanted, 7)
		if p < coord.Moving || p > coord.StableMax || wanted > 0 && wanted < 300 && p*time.Duration(wanted) > coord.Fresh {
			t.Errorf("%d wanted: %v", wanted, p)
		}
	}
}

func TestPeersAreBounded(t *testing.T) {
	table := coord.NewTable(1)
	for i := range coord.MaxPeers + 10 {
		table.Told(fmt.Sprint(i), at(0.01), epoch.Add(time.Duration(i)))
	}
	if len(table.Peers) != coord.MaxPeers || table.Peers["0"] != nil || table.Peers["9"] != nil {
		t.Errorf("%d peers", len(table.Peers))
	}
	table.Peers["broken"] = &coord.Peer{Point: coord.Point{Height: -1}}
	table.Peers["none"] = nil
	if r := coord.RestoreTable(table, 2); r.Peers["broken"] != nil || len(r.Peers) > coord.MaxPeers {
		t.Error("what cannot be was restored")
	}
}
