package proxymity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// A case in which the emulator was off is measured again, at most three times; the best counts,
// and the note says so.
func TestSteady(t *testing.T) {
	const good, bad, worse = emulatorOff, emulatorOff + time.Millisecond, 4 * emulatorOff
	for _, c := range []struct {
		errors []time.Duration
		best   int // which run
		note   string
	}{
		{[]time.Duration{good}, 0, ""},
		{[]time.Duration{bad, good}, 1, "(6.0 ms): measured 2 times"},
		{[]time.Duration{worse, bad, good}, 2, "(20.0, 6.0 ms): measured 3 times"},
		{[]time.Duration{worse, bad, worse, worse}, 1, "also when measured for the 4th time"},
	} {
		runs := 0
		best, a, note, err := steady(func() (int, lab.Accuracy, error) {
			if runs == len(c.errors) {
				t.Fatalf("%v: it is measured once more", c.errors)
			}
			runs++
			return runs - 1, lab.Accuracy{ErrorP99: c.errors[runs-1]}, nil
		})
		if err != nil || best != c.best || a.ErrorP99 != c.errors[c.best] || runs != len(c.errors) {
			t.Errorf("%v: run %d of %d with %v, %v", c.errors, best, runs, a.ErrorP99, err)
		}
		if (note == "") != (c.note == "") || !strings.Contains(note, c.note) {
			t.Errorf("%v: %q", c.errors, note)
		}
	}
	if _, _, _, err := steady(func() (int, lab.Accuracy, error) { return 0, lab.Accuracy{}, errors.New("no") }); err == nil {
		t.Error("an error is lost")
	}
}

func TestNetworkRulesCanFail(t *testing.T) {
	distance := map[string]float64{"London": 0.3, "Paris": 4}
	times := func(n int, ms float64) (out []float64) {
		for range n {
			out = append(out, ms)
		}
		return out
	}
	for _, c := range []struct {
		london, paris int     // requests through the rules
		ms            float64 // of those to London
		want          string
	}{
		{864, 136, 0.81, ""},
		{864, 136, 1.1, "over_direct"},
		{500, 500, 0.81, "network_share network_share"}, // round robin
	} {
		e := &experiment.Env{}
		networkRows(e, &networked{alpha: 1, replicas: []networkedReplica{
			{place: "London", through: times(c.london, c.ms), beside: times(500, 0.8)},
			{place: "Paris", through: times(c.paris, 4.4), beside: times(500, 4.4)},
		}}, distance, "")
		var short []string
		for _, r := range e.Rows {
			if r.Short != "" {
				short = append(short, r.Metric)
			}
		}
		if got := strings.Join(short, " "); got != c.want || len(e.Rows) != 6 {
			t.Errorf("%+v: %q falls short", c, got)
		}
	}
}
