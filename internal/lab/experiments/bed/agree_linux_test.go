package bed

import (
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/labtest"
	"github.com/verge-edge/verge/internal/sim"
)

// What is told apart: the mean time in seconds, and the share of the near pods.
type seen struct{ mean, near float64 }

func seenIn(st *sim.Stats) seen {
	return seen{st.Mean(), float64(st.By["pod-0"]+st.By["pod-1"]) / float64(len(st.Times))}
}

func TestMain(m *testing.M) { os.Exit(labtest.Main(m, "../../../..")) }

// agreeScene is two hosts that are 40 ms apart, fast pods at the first, slow ones at
// the second, and requests at both. Each request holds its place longer by late.
func agreeScene(policy string, late time.Duration, seed uint64) Scene {
	s := Scene{
		Hosts: []string{"far", "near"}, Rtt: func(string, string) time.Duration { return 40 * time.Millisecond },
		Slots: 2, Law: sim.Exponential, Answer: 1, Warm: 1500 * time.Millisecond, Span: 8 * time.Second, Seed: seed,
		Pods:  []ScenePod{{"near", 100*time.Millisecond + late}, {"near", 100*time.Millisecond + late}, {"far", 200*time.Millisecond + late}, {"far", 200*time.Millisecond + late}},
		Loads: []SceneLoad{{Host: "near", Rps: 16}, {Host: "far", Rps: 8}},
	}
	return s.named(policy)
}

// virtualSeen is what comes of a run of it in virtual time.
func virtualSeen(t *testing.T, policy string, late time.Duration, seed uint64) seen {
	t.Helper()
	s := agreeScene(policy, late, seed)
	st, err := s.virtually()
	if err != nil {
		t.Fatal(err)
	}
	return seenIn(st)
}

// agreement is what real requests may come to. Their arrivals and their work are those
// of virtual time, so that chance is left only in who is sent where after small
// differences of time: it is what comes of machines that take no time up to twice as
// much as was measured, and four standard deviations of that more.
type agreement struct{ least, most seen }

func agree(t *testing.T, policy string, overhead time.Duration, requests int, seed uint64) agreement {
	t.Helper()
	const runs = 40
	var sum, squares seen
	least, most := seen{math.Inf(1), math.Inf(1)}, seen{}
	for k := range runs {
		v := virtualSeen(t, policy, 2*max(overhead, time.Millisecond)*time.Duration(k)/(runs-1), seed)
		sum.mean, sum.near = sum.mean+v.mean, sum.near+v.near
		squares.mean, squares.near = squares.mean+v.mean*v.mean, squares.near+v.near*v.near
		least, most = seen{min(least.mean, v.mean), min(least.near, v.near)}, seen{max(most.mean, v.mean), max(most.near, v.near)}
	}
	deviation := func(sum, squares float64) float64 {
		return math.Sqrt(max(0, (squares-sum*sum/runs)/(runs-1)))
	}
	mean, near := 4*deviation(sum.mean, squares.mean), 4*deviation(sum.near, squares.near)
	near += 4 / float64(requests) // a rotation may begin with another pod
	return agreement{seen{least.mean - mean, least.near - near}, seen{most.mean + mean, most.near + near}}
}

func (a agreement) holds(s seen) bool {
	return a.least.mean <= s.mean && s.mean <= a.most.mean && a.least.near <= s.near && s.near <= a.most.near
}

// The lab and virtual time agree on a small scenario: real requests through real
// routers take as long, and go where they go in virtual time. How much the machine adds
// is measured beside, by a client that asks a pod of its own for one thing at a time.
func TestLabAndVirtualTimeAgree(t *testing.T) {
	labtest.Need(t)
	const seed = 1
	e := &experiment.Env{Options: experiment.Options{Seed: seed, Verge: labtest.Verge(), Tool: labtest.Tool(), Say: t.Logf}, Name: "agree"}
	policies := []string{api.PolicyRoundRobin, api.PolicyLeastConnections, api.PolicyFastest}
	got, requests := map[string]seen{}, 0
	var overhead time.Duration
	err := Played(t.Context(), e, []string{"far", "near"}, func(f *Fleet) error {
		probe := agreeScene(api.PolicyRoundRobin, 0, seed)
		probe.Law, probe.Pods, probe.Loads = sim.Fixed, []ScenePod{{"far", 50 * time.Millisecond}}, []SceneLoad{{Host: "near", Clients: 1}}
		scenes := []Scene{probe}
		for _, policy := range policies {
			scenes = append(scenes, agreeScene(policy, 0, seed))
		}
		if err := f.links(probe.Rtt, nil); err != nil {
			return err
		}
		stats, err := f.playAll(t.Context(), scenes)
		if err != nil {
			return err
		}
		overhead = max(0, time.Duration(stats[0].Mean()*1e9)-90*time.Millisecond)
		for i, policy := range policies {
			got[policy] = seenIn(stats[1+i])
			requests = len(stats[1+i].Times)
			if requests < 100 {
				return fmt.Errorf("%d requests only", requests)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the machine adds %v to a request", overhead)
	for _, policy := range policies {
		a := agree(t, policy, overhead, requests, seed)
		t.Logf("%s: mean %.4f s of %.4f to %.4f, near %.3f of %.3f to %.3f", policy, got[policy].mean, a.least.mean, a.most.mean, got[policy].near, a.least.near, a.most.near)
		if !a.holds(got[policy]) {
			t.Errorf("%s: real requests and virtual time do not agree: %+v, and not between %+v and %+v", policy, got[policy], a.least, a.most)
		}
	}
	// What would agree with everything says nothing.
	if a := agree(t, api.PolicyFastest, 0, requests, seed); a.holds(virtualSeen(t, api.PolicyRoundRobin, 0, seed)) {
		t.Errorf("round robin passes for fastest: %+v", a)
	}
}
