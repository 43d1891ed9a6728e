package kubeedge

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab/experiment"
)

func TestPodsCanFail(t *testing.T) {
	for _, c := range []struct {
		alone, crowded [2]float64 // requests a second with one pod and with four
		want           string
	}{
		{[2]float64{140, 140}, [2]float64{300, 1200}, ""},
		{[2]float64{140, 140}, [2]float64{300, 750}, "16"}, // pods do not add up
		{[2]float64{140, 200}, [2]float64{300, 1200}, "1"}, // one client uses several
		{[2]float64{140, 90}, [2]float64{300, 1200}, "1"},  // more pods are slower
		{[2]float64{140, 140}, [2]float64{0, 0}, "16"},     // nothing was answered
	} {
		e := &experiment.Env{}
		podRatios(e, func(x cell) float64 {
			of := c.crowded
			if x.clients == 1 {
				of = c.alone
			}
			return of[x.pods/4]
		})
		var short []string
		for _, r := range e.Rows {
			if r.Short != "" {
				short = append(short, strings.TrimSpace(experiment.Joined([]int{r.Params["clients"].(int)}, " ")))
			}
		}
		if got := strings.Join(short, " "); got != c.want || len(e.Rows) != 2 {
			t.Errorf("%+v: with %q clients it falls short", c, got)
		}
	}
	// Sixteen clients cannot get more of one pod than its two slots answer.
	load := kubeLoad{pods: []int{1}, clients: []int{16}, slots: 2}
	e := &experiment.Env{}
	r := e.Row(experiment.Row{Measured: 1.05 * load.expected()})
	if e.AtMost(r, slotsSlack*load.expected(), "slots"); r.Short == "" {
		t.Error("more answers than slots permit are taken for good")
	}
}
