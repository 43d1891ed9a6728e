package e2e

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/verge-edge/verge/internal/policy/place"
)

// explanation is wire.Explanation with its decisions decoded.
type explanation struct {
	Decisions []struct {
		Tier     string
		Decision place.Decision
	}
	Notes []string
}

// explainIsReplayed asks root and cluster why each instance is where it is, and
// decides again on the inputs of the record.
func (w *world) explainIsReplayed(t *testing.T) {
	for id, i := range w.root.instances("site") {
		e := decode[explanation](t, w.root.ok("explain", "instance/"+id, "-o", "json"))
		kinds := map[string]bool{}
		for _, x := range e.Decisions {
			kinds[x.Decision.Kind] = true
			replayed(t, id+" by "+x.Tier, x.Decision)
			if x.Decision.Kind == place.KindWorker {
				wantEqual(t, "worker chosen for "+id, x.Decision.Chosen, i.Worker)
			}
		}
		if !kinds[place.KindClusters] || !kinds[place.KindWorker] {
			t.Errorf("%s: decisions of both tiers are wanted, there are %v; notes: %v", id, kinds, e.Notes)
		}
		own := decode[explanation](t, w.cluster["edge"].ok("explain", "instance/"+id, "-o", "json"))
		if len(own.Decisions) == 0 {
			t.Errorf("%s: the cluster itself shows no decision", id)
		}
		for _, x := range own.Decisions {
			replayed(t, id+" by "+x.Tier+" itself", x.Decision)
		}
	}
}

func replayed(t *testing.T, what string, d place.Decision) {
	t.Helper()
	if d.TookNs <= 0 {
		t.Errorf("%s: the record does not say how long it took", what)
	}
	d.TookNs = 0
	again := must[place.Decision](t)(place.Replay(d))
	// Through JSON, so that an empty list and none are the same.
	if a, b := through(t, again), through(t, d); !reflect.DeepEqual(a, b) {
		t.Errorf("%s: replayed it is\n%v\nthe record says\n%v", what, a, b)
	}
}

func through(t *testing.T, d place.Decision) (out any) {
	t.Helper()
	if err := json.Unmarshal(must[[]byte](t)(json.Marshal(d)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}
