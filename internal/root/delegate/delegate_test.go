package delegate_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/delegate"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A share has the instances that its cluster was given and has not to end. One that says
// nothing new is not stored again, and one without instances goes.
func TestShares(t *testing.T) {
	m := state.NewModel(time.Minute)
	m.Apps["shop"] = &record.Application{V: wire.Version, Name: "shop", Revision: 7, Number: 3,
		Spec: &api.Application{Application: "shop", Services: map[string]*api.Service{"web": {
			Replicas: api.Replicas{Min: 5, Max: 5}, Runtime: "process", Command: []string{"x"}}}}}
	for _, name := range []string{"edge", "fog"} {
		m.Clusters[name] = state.NewCluster(state.ClusterRecord{Name: name}, time.Unix(1e9, 0))
	}
	// derive gives instances to clusters, by ordinal, and returns the shares that are stored then.
	derive := func(change func(i *wire.Instance), clusters ...string) (*state.Tx, string) {
		t.Helper()
		tx := m.Begin()
		for n, cluster := range clusters {
			i := wire.Instance{V: wire.Version, ID: state.InstanceID("shop", "web", n), App: "shop", Service: "web",
				Ordinal: n, State: wire.Requested, Cluster: cluster}
			if cluster != "" {
				i.State = wire.ClusterScheduled
			}
			if change != nil {
				change(&i)
			}
			tx.Put(i)
		}
		delegate.Shares(tx)
		out := map[string]string{}
		for key, s := range tx.Shares {
			if out[key] = "gone"; s != nil {
				out[key] = fmt.Sprint(s.Min, "-", s.Max, " ", s.Ordinals)
			}
		}
		if _, err := tx.Encode(); err != nil {
			t.Fatal(err)
		}
		tx.Done()
		return tx, fmt.Sprint(out)
	}
	tx, got := derive(nil, "edge", "edge", "fog", "edge", "")
	if got != "map[edge.shop.web:3-3 [{0 2} {3 4}] fog.shop.web:1-1 [{2 3}]]" {
		t.Errorf("delegated %s", got)
	}
	if names := slices.Sorted(maps.Keys(tx.Nudge)); fmt.Sprint(names) != "[edge fog]" {
		t.Errorf("%v are told", names)
	}
	if s := m.Shares["edge.shop.web"]; s.Revision != 7 || s.AppNumber != 3 || !s.Elsewhere || s.Spec == nil {
		t.Errorf("%+v", s)
	}
	if tx, got := derive(nil, "edge", "edge", "fog", "edge", ""); got != "map[]" || len(tx.Nudge) != 0 {
		t.Errorf("nothing is new, and stored is %s", got)
	}
	draining := func(i *wire.Instance) { i.Draining = i.Cluster == "fog" }
	if _, got := derive(draining, "edge", "edge", "fog", "edge", "edge"); got !=
		"map[edge.shop.web:4-4 [{0 2} {3 5}] fog.shop.web:gone]" {
		t.Errorf("with one that ends, and one more: %s", got)
	}
}
