package life

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid" // property tests that shrink their counterexamples

	"github.com/verge-edge/verge/internal/wire"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// The table, written a second time by hand: a change of either needs both.
func TestAllowed(t *testing.T) {
	want := map[wire.State]string{
		"":                    "Registered ClusterScheduled",
		wire.Registered:       "Requested Terminated",
		wire.Requested:        "ClusterScheduled Terminated",
		wire.ClusterScheduled: "Requested WorkerScheduled Terminated",
		wire.WorkerScheduled:  "Running Failed Terminated",
		wire.Running:          "WorkerScheduled Failed Terminated",
		wire.Failed:           "Requested WorkerScheduled Running Terminated",
		wire.Terminated:       "",
		"nonsense":            "",
	}
	steps := 0
	for from, list := range want {
		for _, to := range append(States(), "", "nonsense") {
			ok := strings.Contains(" "+list+" ", " "+string(to)+" ") && to != ""
			if Allowed(from, to) != ok {
				t.Errorf("%q → %q: allowed %v, want %v", from, to, !ok, ok)
			}
			if ok {
				steps++
			}
		}
	}
	if len(Table()) != steps {
		t.Errorf("the table has %d rows for %d steps", len(Table()), steps)
	}
}

func TestTableIsDocumented(t *testing.T) {
	reached := map[wire.State]bool{}
	for _, s := range Table() {
		if s.When == "" {
			t.Errorf("%s → %s does not say when", s.From, s.To)
		}
		reached[s.To] = true
	}
	for _, s := range States() {
		if !reached[s] {
			t.Errorf("no step leads to %s", s)
		}
		if s != wire.Terminated && !Allowed(s, wire.Terminated) {
			t.Errorf("%s cannot be deleted", s)
		}
	}
}

func full() wire.Instance {
	return wire.Instance{
		V: 1, ID: "shop.web.0", State: wire.Running, Since: start, Worker: "w1", Incarnation: 2,
		Conditions: wire.Conditions{Ready: true, Draining: true, Unreachable: true}, Reason: "old",
		RunHistory: wire.RunHistory{LastExit: &wire.Exit{Code: 7}}, PlacementHistory: wire.PlacementHistory{Shadow: &wire.Placement{Worker: "w0"}, Avoid: []string{"w9"}}, History: []wire.Transition{{To: wire.Running, At: start, Tier: "cluster/edge"}},
	}
}

func TestAdvance(t *testing.T) {
	in, before := full(), full()
	now := time.Now() // carries a monotonic reading, which must not be stored
	out, err := Advance(in, wire.Failed, now, "cluster/edge", "worker w1 lost")
	if err != nil {
		t.Fatal(err)
	}
	want := full()
	want.State, want.Since, want.Reason = wire.Failed, now.Round(0), "worker w1 lost"
	want.Ready, want.Draining, want.Unreachable = false, false, false
	want.History = append(want.History, wire.Transition{To: wire.Failed, At: now.Round(0), Tier: "cluster/edge", Why: "worker w1 lost"})
	if !reflect.DeepEqual(out, want) {
		t.Errorf("got  %+v\nwant %+v", out, want)
	}
	out.History[0].Why, out.Avoid[0], out.LastExit.Code, out.Shadow.Worker = "x", "x", 0, "x"
	if !reflect.DeepEqual(in, before) {
		t.Errorf("the input was changed: %+v", in)
	}
}

func TestAdvanceIntoRunningKeepsReady(t *testing.T) {
	in := full()
	in.State, in.Draining = wire.Failed, false
	out, err := Advance(in, wire.Running, start, "cluster/edge", "worker w1 returned")
	if err != nil || !out.Ready || out.Unreachable {
		t.Errorf("%v: %+v", err, out)
	}
}

func TestAdvanceRefuses(t *testing.T) {
	undrained := full()
	undrained.Draining = false
	ended := full()
	ended.State = wire.Terminated
	for name, c := range map[string]struct {
		in   wire.Instance
		to   wire.State
		want string
	}{
		"not draining": {undrained, wire.Terminated, "instance shop.web.0 cannot go from Running to Terminated: it is not draining; set the condition and tell the routers first"},
		"final":        {ended, wire.Running, "instance shop.web.0 cannot go from Terminated to Running"},
		"not opened":   {wire.Instance{ID: "a.b.0"}, wire.Running, "instance a.b.0 cannot go from a new record to Running"},
		"itself":       {undrained, wire.Running, "instance shop.web.0 cannot go from Running to Running"},
	} {
		out, err := Advance(c.in, c.to, start, "root", "")
		var illegal *IllegalError
		if !errors.As(err, &illegal) || illegal.ID != c.in.ID || illegal.From != c.in.State || illegal.To != c.to {
			t.Errorf("%s: error %#v", name, err)
			continue
		}
		if err.Error() != c.want {
			t.Errorf("%s: %q, want %q", name, err, c.want)
		}
		if out.ID != "" {
			t.Errorf("%s: returned a record with the error", name)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	in := wire.Instance{ID: "shop.web.0", State: wire.Requested}
	for n := range 50 {
		to := wire.ClusterScheduled
		if n%2 == 1 {
			to = wire.Requested
		}
		out, err := Advance(in, to, start.Add(time.Duration(n)*time.Second), "root", "")
		if err != nil {
			t.Fatal(err)
		}
		in = out
	}
	var at []int
	for _, step := range in.History {
		at = append(at, int(step.At.Sub(start).Seconds()))
	}
	if len(at) != MaxHistory || !slices.Equal(at[:4], []int{0, 1, 2, 21}) || at[MaxHistory-1] != 49 {
		t.Errorf("kept the steps %v of 50", at)
	}
}

// A random life: every step is in the table or refused, the history is bounded,
// keeps its beginning, ends in the present, and survives storage.
func TestRandomLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := wire.Instance{V: 1, ID: "shop.web.0"}
		now, n := start, 0
		var first []wire.Transition
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			to := rapid.SampledFrom(States()).Draw(t, "to")
			if to == wire.Terminated && rapid.IntRange(0, 9).Draw(t, "spared") > 0 {
				to = wire.WorkerScheduled // else few would live for long
			}
			now = now.Add(time.Second)
			in.Draining = rapid.Bool().Draw(t, "draining") && in.State == wire.Running
			out, err := Advance(in, to, now, "cluster/edge", "drawn")
			legal := Allowed(in.State, to) && !(in.State == wire.Running && to == wire.Terminated && !in.Draining)
			if (err == nil) != legal {
				t.Fatalf("%s → %s: %v", in.State, to, err)
			}
			if err != nil {
				continue
			}
			if in.State == wire.Terminated {
				t.Fatal("there is a life after Terminated")
			}
			in, n = out, n+1
			if len(first) < keptFirst {
				first = append(first, in.History[n-1])
			}
			last := in.History[len(in.History)-1]
			if in.State != to || last.To != to || !last.At.Equal(now) || !in.Since.Equal(now) {
				t.Fatalf("after %s: %+v", to, in)
			}
			if len(in.History) != min(n, MaxHistory) || !reflect.DeepEqual(in.History[:len(first)], first) {
				t.Fatalf("%d steps, history of %d begins %v", n, len(in.History), in.History[:len(first)])
			}
		}
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var stored wire.Instance
		if err := json.Unmarshal(b, &stored); err != nil || !reflect.DeepEqual(stored, in) {
			t.Fatalf("stored %+v, want %+v (%v)", stored, in, err)
		}
	})
}
