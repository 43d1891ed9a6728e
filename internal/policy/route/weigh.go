package route

import (
	"slices"

	"github.com/verge-edge/verge/internal/policy/route/throughput"
)

// Capable is what is known of an endpoint's node.
type Capable struct {
	// Node is its name.
	Node string
	// Serves is the profiled throughput of the endpoints of the service there together, in requests
	// per second; a value that is not positive and finite is unknown.
	Serves float64
	// CPU of the node, in any unit; invalid values are unknown too.
	CPU float64
}

// Weigh sets the weight of each endpoint of a service: the throughput of its node, divided among
// the endpoints there, relative to the largest of any node, which is 256 (the edge-to-cloud study).
// For a node that was not profiled it follows from its processors and the throughput per processor
// of the profiled ones; if none was profiled, only processors count. If neither is known the weight
// is 0.
func Weigh(list []Endpoint, of func(i int) Capable) {
	here, at := map[string]int{}, map[string]int{}
	var nodes []throughput.Profiled
	for i := range list {
		c := of(i)
		if here[c.Node]++; here[c.Node] == 1 {
			at[c.Node] = len(nodes)
			nodes = append(nodes, throughput.Profiled{Serves: c.Serves, CPU: c.CPU})
		}
	}
	serves, most := throughput.Estimates(nodes), 0.0
	profiled := slices.ContainsFunc(serves, func(e throughput.Estimate) bool { return e.Serves > 0 })
	for k := range serves {
		if !profiled && positive(nodes[k].CPU) {
			serves[k].Serves = nodes[k].CPU
		}
		most = max(most, serves[k].Serves)
	}
	for i := range list {
		name := of(i).Node
		list[i].Weight = 0
		if w := serves[at[name]].Serves; w > 0 {
			list[i].Weight = w / float64(here[name]) / most * 256
		}
	}
}
