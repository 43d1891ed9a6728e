package sim_test

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

// Two pods 10 ms away get 30 requests a second for five minutes.
func Example() {
	w := sim.New(1)
	var pods []*sim.Pod
	for i := range 2 {
		p := &sim.Pod{ID: fmt.Sprint("pod-", i), Place: "away", Slots: 4, Service: 100 * time.Millisecond}
		pods = append(pods, p.Start(w))
	}
	link := &sim.Link{RTT: 10 * time.Millisecond}
	r, err := sim.NewRouter(w, "here", api.Policy{Name: api.PolicyRoundRobin}, func(string) *sim.Link { return link })
	if err != nil {
		fmt.Println(err)
		return
	}
	r.Use(pods)
	s := &sim.Stats{From: 30 * time.Second} // until then it warms up
	sim.Open(w, "clients", r, sim.Works(sim.Fixed, 0, 0), sim.Steady(30), 30, 5*time.Minute, s)
	w.Run(6 * time.Minute)
	fmt.Println("median", time.Duration(s.Percentile(0.5)*float64(time.Second)).Round(time.Millisecond))
	// Output: median 110ms
}
