package localedit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/localedit"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster reports for itself, whatever it says, and no more than there is room for.
func TestCheckLocal(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	l := wire.LocalChange{Cluster: "fog", App: long, Service: "web", Change: long, By: long, Devices: []api.DeviceNeed{
		{Type: api.DeviceGPU, Count: 2, Model: []string{"a10"}}, {Type: api.DeviceGPU, Count: -1}, {Type: long, Count: 1},
		{Type: api.DeviceGPU, Count: api.MaxDevices + 1},
	}}
	localedit.CheckLocal(&l, "edge")
	if l.Cluster != "edge" || len(l.App) > state.MaxName+8 || len(l.Change) > state.MaxWords+8 ||
		len(l.By) > state.MaxName+8 {
		t.Errorf("cluster %s, app of %d, change of %d, by of %d", l.Cluster, len(l.App), len(l.Change), len(l.By))
	}
	if len(l.Devices) != 1 || l.Devices[0].Count != 2 || l.Devices[0].Model != nil {
		t.Errorf("devices %+v", l.Devices)
	}
}

// Views has the changes of each cluster by service, and its conflicts by time.
func TestViews(t *testing.T) {
	at := time.Unix(1e9, 0)
	m := state.NewModel(time.Minute)
	for _, name := range []string{"edge", "fog"} {
		c := state.NewCluster(state.ClusterRecord{Name: name}, at)
		c.Locals = map[string]*wire.LocalChange{
			"shop.web": {Cluster: name, App: "shop", Service: "web", Change: "scaled 1 → 2", By: "ann"},
			"bank.db":  {Cluster: name, App: "bank", Service: "db", Change: "created", By: "ann"},
		}
		c.Conflicts = map[string]*wire.Conflict{
			"1": {ID: "1", LocalChange: wire.LocalChange{Cluster: name, App: "shop", At: at.Add(time.Minute)}},
			"2": {ID: "2", LocalChange: wire.LocalChange{Cluster: name, App: "shop", At: at}},
		}
		m.Clusters[name] = c
	}
	all := localedit.Views(m, "")
	if len(all.Changes) != 4 || all.Changes[0].Cluster != "edge" || all.Changes[0].App != "bank" ||
		all.Changes[3].Cluster != "fog" {
		t.Errorf("changes %+v", all.Changes)
	}
	if len(all.Conflicts) != 4 || all.Conflicts[0].ID != "2" || all.Conflicts[1].ID != "1" ||
		all.Conflicts[3].Cluster != "fog" {
		t.Errorf("conflicts %+v", all.Conflicts)
	}
	if shop := localedit.Views(m, "shop"); len(shop.Changes) != 2 || len(shop.Conflicts) != 4 {
		t.Errorf("of shop %+v", shop)
	}
	if bank := localedit.Views(m, "bank"); len(bank.Changes) != 2 || len(bank.Conflicts) != 0 {
		t.Errorf("of bank %+v", bank)
	}
	const want = "scaled 1 → 2 at cluster edge by ann (local), scaled 1 → 2 at cluster fog by ann (local)"
	if got := localedit.Describe(m, "shop", "web"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := localedit.Describe(m, "shop", "db"); got != "" {
		t.Errorf("%q of a service that nobody changed", got)
	}
}
