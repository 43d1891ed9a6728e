package mu

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/sim/placement"
)

// TestSolverIsNotBelieved: what a solver says of a case counts only if it keeps within
// the nodes and within what was asked for.
func TestSolverIsNotBelieved(t *testing.T) {
	t.Parallel()
	// Two nodes, of two cores and of one; three pods of a core each are asked for.
	c := placement.Nodes([]placement.Node{{Name: "a", Cores: 2, Memory: 4e9, Throughput: 1}, {Name: "b", Cores: 1, Memory: 4e9, Throughput: 1}}, 1, 1e9, 3)
	for _, x := range []struct{ name, answer, wrong string }{
		{"good", `{"placed":[[0,0,2],[0,1,1]],"gap":0.005,"cpu_seconds":0.25}`, ""},
		{"too many on a node", `{"placed":[[0,1,2]]}`, "does not fit"},
		{"more than asked for", `{"placed":[[0,0,2],[0,1,1],[0,0,1]]}`, "not asked for"},
		{"fewer than none", `{"placed":[[0,0,-1]]}`, "not asked for"},
		{"no such service", `{"placed":[[1,0,1]]}`, "not asked for"},
		{"no such node", `{"placed":[[0,2,1]]}`, "not asked for"},
		{"no JSON", `Traceback`, "answer to case 0"},
		{"no answer", ``, "answer to case 0"},
	} {
		got, err := readSolved(strings.NewReader(x.answer), []*placement.Scenario{c}, "ilp0")
		switch {
		case x.wrong != "" && (err == nil || !strings.Contains(err.Error(), x.wrong)):
			t.Errorf("%s: %v, want %q", x.name, err, x.wrong)
		case x.wrong == "" && (err != nil || got[0].result.Placed != 3 || got[0].gap != 0.005 || got[0].result.Took.Milliseconds() != 250):
			t.Errorf("%s: %+v, %v", x.name, got, err)
		}
	}
}
