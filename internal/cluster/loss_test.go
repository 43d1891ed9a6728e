package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// The line of a worker that is not heard of says what that affects, and then what became of
// it; and a service does not hold while an instance of it cannot be reached.
func TestALostWorkerSaysWhatIsAffected(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	_, pass := twoWorkers(t, c)
	if err := (*rootDesired)(c).Take(t.Context(), true, []wire.Change{share(t, 2)}, wire.Rev{Inc: "root", N: 7}, nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		pass(time.Second, "w1", "w2")
	}
	key, id := "", ""
	for k := range c.m.Shares {
		key = k
	}
	for i, inst := range c.m.Insts {
		if inst.Worker == "w2" {
			id = i
		}
	}
	if v := c.m.serviceView(c.m.Shares[key]); v.Message != "" || v.Ready != 2 || id == "" {
		t.Fatalf("%+v, %q", v, id)
	}
	said, unreachable := []string{}, ""
	for range 60 {
		pass(time.Second, "w1")
		if c.m.Insts[id].Unreachable {
			unreachable = c.m.serviceView(c.m.Shares[key]).Message
		}
	}
	if want := "1 of 2 ready; " + id + " is unreachable: worker w2 is not heard of"; unreachable != want {
		t.Errorf("while it is unreachable: %q, want %q", unreachable, want)
	}
	for _, e := range c.events.After(t.Context(), 0, 0).Events {
		if e.Subject == "worker/edge/w2" {
			said = append(said, e.What)
		}
	}
	affected := "1 instance affected (" + id + ")"
	if len(said) != 2 || !strings.HasPrefix(said[0], "suspect: ") || !strings.HasSuffix(said[0], "; "+affected) || !strings.HasPrefix(said[1], affected+", replaced in ") {
		t.Errorf("events of the worker: %q", said)
	}
	if got := c.events.After(t.Context(), 0, 0).Events; !slices.ContainsFunc(got, func(e wire.Event) bool {
		return e.Subject == "instance/"+id && e.What == "unreachable: its worker w2 is not heard of"
	}) {
		t.Errorf("events: %+v", got)
	}
}
