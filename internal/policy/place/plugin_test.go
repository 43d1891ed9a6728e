package place

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// genAdvice is what a plugin may say about workers that were there when it was asked.
func genAdvice(t *rapid.T, workers []WorkerView) *Advice {
	a := &Advice{Plugin: "sage"}
	for _, w := range workers {
		switch rapid.IntRange(0, 3).Draw(t, "verdict") {
		case 0:
			if a.Rejected == nil {
				a.Rejected = map[string]string{}
			}
			a.Rejected[w.ID] = rapid.SampledFrom([]string{"", "hot"}).Draw(t, "why")
		case 1, 2:
			a.Ranking = append(a.Ranking, Ranked{ID: w.ID, Score: rapid.SampledFrom([]float64{-1, 0, 0.5, 7}).Draw(t, "score")})
		}
	}
	if len(a.Ranking) > 0 && rapid.Bool().Draw(t, "names one") {
		a.Worker = rapid.SampledFrom(a.Ranking).Draw(t, "named").ID
	}
	if rapid.IntRange(0, 5).Draw(t, "gone") == 0 {
		a.Ranking = append(a.Ranking, Ranked{ID: "w99", Score: 100})
	}
	if rapid.IntRange(0, 5).Draw(t, "failed") == 0 {
		a = &Advice{Plugin: "sage", Problem: "late"}
	}
	return a
}

// Whatever a plugin says: what is chosen passes every filter of this moment, was
// named or ranked, and is the best of those by what it said; a plugin that failed
// leaves it to rom; the record is replayed.
func TestAdvisedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, req := genWorkers(t), genRequest(t)
		req.Scheduler, req.Plugin, req.Advice = "plugin", "sage", genAdvice(t, workers)
		d := Schedule(workers, req)
		shuffled := slices.Clone(workers)
		rand.New(rand.NewPCG(1, uint64(len(workers)))).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		checkRecord(t, d, Schedule(shuffled, req))

		plain := req
		plain.Scheduler, plain.Advice = "rom", nil
		byRom := Schedule(workers, plain)
		if req.Advice.Problem != "" {
			if d.Chosen != byRom.Chosen || d.Reason != byRom.Reason {
				t.Fatalf("rom chooses %q (%s), instead of the plugin %q (%s)", byRom.Chosen, byRom.Reason, d.Chosen, d.Reason)
			}
			return
		}
		feasible, more := Feasible(workers, req, 1000)
		if more != 0 || (len(feasible) == 0) != (byRom.Chosen == "") {
			t.Fatalf("%d are feasible, %d more; rom chooses %q", len(feasible), more, byRom.Chosen)
		}
		score := map[string]float64{}
		for _, r := range req.Advice.Ranking {
			score[r.ID] = r.Score
		}
		best, some := 0.0, false
		for _, w := range feasible {
			if s, ranked := score[w.ID]; ranked && (!some || s > best) {
				best, some = s, true
			}
		}
		switch {
		case (d.Chosen != "") != some:
			t.Fatalf("chosen %q; is there one that was ranked and fits: %v", d.Chosen, some)
		case !some && d.Reason == "":
			t.Fatal("nothing is chosen, and no reason is given")
		case some && !slices.ContainsFunc(feasible, func(w WorkerView) bool { return w.ID == d.Chosen }):
			t.Fatalf("%s does not pass the filters", d.Chosen)
		case some && slices.ContainsFunc(feasible, func(w WorkerView) bool { return w.ID == req.Advice.Worker }):
			if d.Chosen != req.Advice.Worker {
				t.Fatalf("chosen %s, named %s", d.Chosen, req.Advice.Worker)
			}
		case some && score[d.Chosen] != best:
			t.Fatalf("chosen %s with %g, the best has %g", d.Chosen, score[d.Chosen], best)
		}
	})
}

// Before a plugin has answered nothing is decided.
func TestAdviceIsAwaited(t *testing.T) {
	w := WorkerView{ID: "w1", Capacity: api.Resources{CPU: 1000}}
	d := Schedule([]WorkerView{w}, Request{Instance: "a.b.0", Scheduler: "plugin", Plugin: "sage"})
	if d.Chosen != "" || d.Reason != "plugin sage has not been asked yet" {
		t.Errorf("%+v", d)
	}
}

// A cluster without the plugin is passed over, with those that it has.
func TestClustersWithoutThePlugin(t *testing.T) {
	view := func(id string, plugins ...string) ClusterView {
		s := wire.Spread{Sum: 1000, Mean: 1000, Max: 1000}
		return ClusterView{ID: id, Connected: true, Aggregate: wire.Aggregate{V: 1, Workers: 1, Plugins: plugins, FreeCapacity: wire.FreeCapacity{CPU: s, Memory: s, Disk: s}, Capacity: api.Resources{CPU: 1000, Memory: 1000, Disk: 1000}}}
	}
	req := Request{Instance: "a.b", Count: 1, Scheduler: "plugin", Plugin: "sage"}
	d := RankClusters([]ClusterView{view("one"), view("two", "ilp")}, req)
	if len(d.Shares) != 0 || !strings.Contains(d.Reason, "2 lack plugin sage") || d.Filtered[0].Name != "plugin" {
		t.Errorf("%+v", d)
	}
	d = RankClusters([]ClusterView{view("one"), view("two", "ilp"), view("three", "ilp", "sage")}, req)
	if len(d.Shares) != 1 || d.Shares[0].Cluster != "three" {
		t.Errorf("%+v", d)
	}
}

// A record that is too large for its inputs has no ranking either.
func TestLargeRecordsLeaveOutTheRanking(t *testing.T) {
	var workers []WorkerView
	a := &Advice{Plugin: "sage"}
	for n := range MaxInputs + 1 {
		id := "w" + string(rune('a'+n/26/26)) + string(rune('a'+n/26%26)) + string(rune('a'+n%26))
		workers = append(workers, WorkerView{ID: id, Capacity: api.Resources{CPU: 1000}})
		a.Ranking = append(a.Ranking, Ranked{ID: id, Score: float64(n)})
	}
	d := Schedule(workers, Request{Instance: "a.b.0", Scheduler: "plugin", Plugin: "sage", Advice: a})
	if d.Chosen != workers[MaxInputs].ID || d.InputsOmitted != MaxInputs+1 || len(d.Request.Advice.Ranking) != 0 || len(a.Ranking) != MaxInputs+1 {
		t.Errorf("chosen %s, %d rankings in the record", d.Chosen, len(d.Request.Advice.Ranking))
	}
	if list, more := Feasible(workers, d.Request, 100); len(list) != 100 || more != MaxInputs-99 {
		t.Errorf("%d and %d more", len(list), more)
	}
}
