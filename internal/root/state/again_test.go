package state_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
)

// remembered is a memory as packages have them.
var remembered = table.Remember(&state.Schema, table.MemoryRules[int]{})

// A model that is read again keeps what the process knows beside the store: each field of
// Process, the memories of packages, and of clusters all but their records.
func TestAModelThatIsReadAgain(t *testing.T) {
	old := state.NewModel(time.Minute)
	clonetest.Fill(&old.Process, func(string, reflect.Type) bool { return false })
	old.DeadAfter, old.Alone = time.Minute, true
	*remembered.Of(old.DB) = 7
	heard := state.NewCluster(state.ClusterRecord{Name: "edge", Version: "v1"}, time.Now())
	heard.EverHeard = true
	// Both were stored by a write whose outcome was unknown.
	rejoined := state.NewCluster(state.ClusterRecord{Name: "rejoined", KeyHash: "a"}, time.Now())
	revoked := state.NewCluster(state.ClusterRecord{Name: "revoked"}, time.Now())
	rejoined.Current, revoked.Connected = true, true
	old.Clusters = map[string]*state.Cluster{"edge": heard, "removed": {}, "rejoined": rejoined, "revoked": revoked}
	again := old.Again()
	state.ClusterTable.Rows(again.DB)["edge"] = &state.ClusterRecord{Name: "edge", Version: "v2"}
	state.ClusterTable.Rows(again.DB)["rejoined"] = &state.ClusterRecord{Name: "rejoined", KeyHash: "b"}
	state.ClusterTable.Rows(again.DB)["revoked"] = &state.ClusterRecord{Name: "revoked", Revoked: time.Now()}
	again.Loaded(time.Now())

	again.KeepClusters(old)
	if v := reflect.ValueOf(old.Process); !reflect.DeepEqual(again.Process, old.Process) {
		t.Errorf("%+v became %+v", old.Process, again.Process)
	} else {
		for n := range v.NumField() {
			if v.Field(n).IsZero() {
				t.Errorf("%s is not filled: nothing is tested of it", v.Type().Field(n).Name)
			}
		}
	}
	if got := *remembered.Of(again.DB); got != 7 {
		t.Errorf("a memory of 7 became %d", got)
	}
	if cl := again.Clusters["edge"]; len(again.Clusters) != 3 || !cl.EverHeard || cl.Version != "v2" {
		t.Errorf("%v, %+v", again.Clusters, cl)
	}
	if again.Clusters["rejoined"].Current || again.Clusters["revoked"].Connected {
		t.Error("what was known of another key is known of the new one")
	}
}
