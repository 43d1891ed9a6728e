package suspicion

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

func TestLoss(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	insts := map[string]*wire.Instance{}
	l := Loss{Since: start, Cluster: "edge"}
	for _, id := range []string{"a.b.0", "a.b.1"} {
		insts[id] = &wire.Instance{ID: id, State: wire.Running, Conditions: wire.Conditions{Ready: true, Unreachable: true}, Cluster: "edge", Worker: "w1", Incarnation: 1}
		l.Add(insts[id])
	}
	after := func(d time.Duration) string {
		what, over := l.Over(func(id string) *wire.Instance { return insts[id] }, start.Add(d))
		if over != (what != "") {
			t.Errorf("%q, %v", what, over)
		}
		return what
	}
	if got := l.Affected(); got != "2 instances affected (a.b.0, a.b.1)" {
		t.Error(got)
	}
	if got := after(time.Second); got != "" {
		t.Errorf("while they are unreachable: %q", got)
	}
	insts["a.b.0"].Unreachable = false
	insts["a.b.1"] = &wire.Instance{State: wire.Running, Cluster: "edge", Worker: "w2", Incarnation: 2}
	if got := after(time.Second); got != "" {
		t.Errorf("while the next one is not ready: %q", got)
	}
	insts["a.b.1"].Ready = true
	if got := after(17 * time.Second); got != "2 instances affected (a.b.0, a.b.1), 1 replaced and 1 reachable again after 17s" {
		t.Error(got)
	}
	insts["a.b.0"] = &wire.Instance{State: wire.Running, Conditions: wire.Conditions{Ready: true}, Cluster: "fog", Incarnation: 1}
	if got := after(17 * time.Second); got != "2 instances affected (a.b.0, a.b.1), replaced in 17s" {
		t.Error(got)
	}
	insts = nil
	if got := after(time.Second); got != "2 instances affected (a.b.0, a.b.1), wanted no more" {
		t.Error(got)
	}
	for _, id := range []string{"c", "d", "e", "f", "g"} {
		l.Add(&wire.Instance{ID: id})
	}
	if got := l.Affected(); got != "7 instances affected (a.b.0, a.b.1, c, d, e and 2 more)" {
		t.Error(got)
	}
}
