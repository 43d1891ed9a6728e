package place

import (
	"fmt"
	"math"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestDescribe(t *testing.T) {
	var ws []WorkerView
	for i := range 200 {
		w := WorkerView{ID: fmt.Sprint(i), Arch: archs[i%2], Labels: map[string]string{"all": "yes", "unique": fmt.Sprintf("%03d", i), "bad key!": "x"}}
		if i >= 100 {
			w.Suspect = true
		}
		ws = append(ws, w)
	}
	ws[0].Location, ws[1].Location = &api.Point{48, 11}, &api.Point{math.NaN(), 0}
	var a wire.Aggregate
	Describe(ws, &a)
	if a.Architectures["amd64"] != 50 || a.Architectures["arm64"] != 50 || len(a.Architectures) != 2 {
		t.Errorf("architectures %v", a.Architectures)
	}
	if len(a.Labels) != wire.MaxLabels || !a.MoreLabels || a.Labels["all=yes"] != 100 || a.Labels["unique=000"] != 1 || a.Labels["bad key!=x"] != 0 {
		t.Errorf("%d labels, more %v: %v", len(a.Labels), a.MoreLabels, a.Labels)
	}
	if a.Disc == nil || a.Disc.Workers != 1 || a.Disc.Center != (api.Point{48, 11}) {
		t.Errorf("disc %+v", a.Disc)
	}
	b := a
	if b.Disc = nil; !SameDescription(&a, &a) || SameDescription(&a, &b) {
		t.Error("descriptions are compared wrongly")
	}
	// With more labels than are told, a label that is not among them may be there.
	c := ClusterView{ID: "c", Connected: true, Aggregate: a}
	c.Aggregate.Workers = 100
	if d := RankClusters([]ClusterView{c}, Request{Count: 1, Affinity: api.Affinity{Labels: map[string]string{"unique": "099"}}}); len(d.Shares) != 1 {
		t.Errorf("not offered: %s", d.Reason)
	}
}
