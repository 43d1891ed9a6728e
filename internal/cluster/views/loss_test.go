package views_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// The line of a worker that is not heard of says what that affects, and then what became of
// it; and a service does not hold while an instance of it cannot be reached.
func TestALostWorkerSaysWhatIsAffected(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	_, pass := clustertest.TwoWorkers(t, c)
	if err := uplink.FromRoot(c).Take(t.Context(), true, []wire.Change{clustertest.ShareChange(t, 2)},
		wire.Rev{Inc: "root", N: 7},
		nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		pass(time.Second, "w1", "w2")
	}
	key, id := "", ""
	for k := range c.M.Shares {
		key = k
	}
	for i, inst := range c.M.Insts {
		if inst.Worker == "w2" {
			id = i
		}
	}
	if v := views.ServiceView(c.M, c.M.Shares[key]); v.Message != "" || v.Ready != 2 || id == "" {
		t.Fatalf("%+v, %q", v, id)
	}
	said, unreachable := []string{}, ""
	for range 60 {
		pass(time.Second, "w1")
		if c.M.Insts[id].Unreachable {
			unreachable = views.ServiceView(c.M, c.M.Shares[key]).Message
		}
	}
	if want := "1 of 2 ready; " + id + " is unreachable: worker w2 does not report"; unreachable != want {
		t.Errorf("while it is unreachable: %q, want %q", unreachable, want)
	}
	for _, e := range c.EventRing.After(t.Context(), 0, 0).Events {
		if e.Subject == "worker/edge/w2" {
			said = append(said, e.What)
		}
	}
	affected := "1 instance affected (" + id + ")"
	if len(said) != 2 || !strings.HasPrefix(said[0], "suspect: ") || !strings.HasSuffix(said[0], "; "+affected) ||
		!strings.HasPrefix(said[1], affected+", replaced in ") {
		t.Errorf("events of the worker: %q", said)
	}
	if got := c.EventRing.After(t.Context(), 0, 0).Events; !slices.ContainsFunc(got, func(e apiv1.Event) bool {
		return e.Subject == "instance/"+id && e.What == "unreachable: its worker w2 does not report"
	}) {
		t.Errorf("events: %+v", got)
	}
}
