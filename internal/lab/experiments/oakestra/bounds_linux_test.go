package oakestra

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// fallsShort names the metrics of the rows that do.
func fallsShort(rows experiment.Rows) string {
	var out []string
	for _, r := range rows {
		if r.Short != "" {
			out = append(out, r.Metric)
		}
	}
	return strings.Join(out, " ")
}

func TestIdleAndStressCanFail(t *testing.T) {
	for _, of := range []func(string, int) (use, string){idleMost, stressMost} {
		for _, tier := range []string{tierRoot, tierCluster, tierWorker} {
			most, from := of(tier, 10)
			for _, c := range []struct {
				got  use
				want string
			}{
				{most, ""}, {use{most.cpu + 1, most.memory}, "cpu"}, {use{most.cpu, most.memory + 1}, "memory"},
			} {
				e := &experiment.Env{}
				useRows(e, map[string]any{"tier": tier}, c.got, most, from)
				if got := fallsShort(e.Rows); got != c.want {
					t.Errorf("%s with %+v: %q falls short", tier, c.got, got)
				}
			}
		}
	}
	// What an idle cluster takes grows with its workers, and so does what it may take.
	if two, _ := idleMost(tierCluster, 2); two.cpu >= 120 {
		t.Errorf("a cluster of two workers may take %g ms a minute", two.cpu)
	}
	for ms, want := range map[float64]string{3: "", 3.5: "deploy_cpu"} {
		e := &experiment.Env{}
		deployCPURows(e, nil, map[string]float64{tierRoot: ms, tierCluster: ms, tierWorker: ms})
		if got := fallsShort(e.Rows); got != want || len(e.Rows) != 4 {
			t.Errorf("%g ms in each tier: %q falls short in %d rows", ms, got, len(e.Rows))
		}
	}
}

func TestControlCanFail(t *testing.T) {
	const workers = 2
	good := [2]emul.Count{{Sent: 40, Bytes: 6000, Data: 20}, {Sent: 60, Bytes: 9000, Data: 30}}
	for want, of := range map[string][2]emul.Count{
		"":              good,
		"packets":       {{Sent: 2*idlePackets + 1, Bytes: 6000, Data: 20}, good[1]},
		"bytes":         {{Sent: 40, Bytes: 2*idleBytes + 1, Data: 20}, good[1]},
		"messages":      {good[0], {Sent: 80, Bytes: 9000, Data: 2*deployMessages + 1}},
		"packets bytes": {{Sent: 400, Bytes: 60_000, Data: 200}, good[1]},
	} {
		e := &experiment.Env{}
		before := emul.Count{Sent: 1000, Bytes: 1e6, Data: 500}
		quiet := before.Add(of[0])
		controlRows(e, workers, time.Minute, traffic{before, quiet}, traffic{quiet, quiet.Add(of[1])})
		if got := fallsShort(e.Rows); got != want || len(e.Rows) != 6 {
			t.Errorf("%q falls short in %d rows, want %q", got, len(e.Rows), want)
		}
	}
}

func TestDeployCanFail(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		ten, far int // ms with ten workers, and with four and the longest delay
		want     string
	}{
		{400, 900, ""},
		{1001, 900, "deploy_time_over"},
		{400, 120 + mostRoundTrips*250 + 10, "round_trips"},
		{400, 120 + 240, "round_trips"}, // nobody has waited for an answer
	} {
		e := &experiment.Env{}
		deployRatios(e, []deployed{
			{deployCase{2, 0, 0}, ms(100)}, {deployCase{4, 0, 0}, ms(120)}, {deployCase{10, 0, 0}, ms(c.ten)},
			{deployCase{4, ms(50), 0}, ms(20_000)}, // too near to be judged
			{deployCase{4, mostDelay, 0}, ms(c.far)}, {deployCase{4, mostDelay, 0.2}, ms(90_000)},
		})
		if got := fallsShort(e.Rows); got != c.want || len(e.Rows) != 3 {
			t.Errorf("%+v: %q falls short in %d rows", c, got, len(e.Rows))
		}
	}
}

// Messages are what links carried between two looks, whatever they had carried before.
func TestMessagesOfASplit(t *testing.T) {
	before := []emul.Count{{Data: 7}, {Data: 100}, {Data: 1}}
	after := []emul.Count{{Data: 10}, {Data: 105}, {Data: 12}}
	if root, cluster := messages(before, after); root != 3 || cluster != 11 {
		t.Errorf("%d at the root, %d at a cluster", root, cluster)
	}
	if sum := carried(before, after); sum != 3+5+11 {
		t.Errorf("%d on all links", sum)
	}
}
