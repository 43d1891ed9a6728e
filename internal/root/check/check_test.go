package check_test

import (
	"encoding/json"
	"math"
	"net/netip"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/root/check"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A report is about the instance that it names and in a state that there is.
func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*wire.Reported)
		want   string // in the error; "" for none
	}{
		"sound":            {func(*wire.Reported) {}, ""},
		"another instance": {func(r *wire.Reported) { r.ID = "app.web.1" }, "about \"app.web.1\""},
		"another ordinal":  {func(r *wire.Reported) { r.Ordinal = 1 }, "about"},
		"another service":  {func(r *wire.Reported) { r.Service = "db" }, "about"},
		"another state":    {func(r *wire.Reported) { r.State = "Flying" }, "no state \"Flying\""},
	} {
		r := wire.Reported{Instance: wire.Instance{ID: "app.web.0", App: "app", Service: "web", State: wire.Running}}
		tc.change(&r)
		if err := check.Check(&r, "app.web.0"); (err == nil) != (tc.want == "") ||
			err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// What is too long is cut off, and what is of no concern to a root is left out.
func TestCheckBounds(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	r := wire.Reported{Instance: wire.Instance{ID: "app.web.0", App: "app", Service: "web", State: wire.Running,
		Replaces: "app.web.7", History: make([]wire.Transition, 1000)}, Address: long, Addrs: make([]netip.Addr, 1000)}
	r.Reason, r.Restarts, r.Starts, r.AllRestarts = long, math.MinInt, -1, -1
	r.Secrets = make([]wire.SecretHeld, 1000)
	r.Secrets[0].Why, r.History[999].Why = long, long
	if err := check.Check(&r, "app.web.0"); err != nil {
		t.Fatal(err)
	}
	if len(r.Reason) > state.MaxWords+8 || len(r.Address) > state.MaxName+8 || len(r.Addrs) > lease.MaxAddrs ||
		len(r.Secrets) > 200 || len(r.Secrets[0].Why) > state.MaxWords+8 || r.Restarts != 0 || r.Starts != 0 ||
		r.AllRestarts != 0 || r.Replaces != "" || len(r.History) != life.MaxHistory {
		t.Errorf("it is not bounded: %d of reason, %d of address, %d secrets, %d steps", len(r.Reason),
			len(r.Address), len(r.Secrets), len(r.History))
	}
	if last := r.History[life.MaxHistory-1].Why; last == "" || len(last) > state.MaxWords+8 {
		t.Errorf("the last step is lost or not cut: %d bytes", len(last))
	}
}

// The aggregate of a cluster is read up to a size.
func TestDecodeAggregate(t *testing.T) {
	var a wire.Aggregate
	if err := check.DecodeAggregate(json.RawMessage(`{"workers":3}`), &a); err != nil || a.Workers != 3 {
		t.Errorf("%+v, %v", a, err)
	}
	if err := check.DecodeAggregate(json.RawMessage(`{"areas":["`+strings.Repeat("x", 64<<10)+`"]}`), &a); err == nil {
		t.Error("a long one is read")
	}
}
