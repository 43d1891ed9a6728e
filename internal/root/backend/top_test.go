package backend_test

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The root measures through the clusters that let themselves be asked, for who may
// see what it asks about, and says of all else why it is not measured.
func TestTop(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog", "gone")
	for name, agg := range map[string]*wire.Aggregate{
		"edge": {Details: true}, "fog": {Workers: 3, Instances: 7, Capacity: api.Resources{CPU: 4000},
			FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: 1000}}}, "gone": {Details: true},
	} {
		s.Model.Clusters[name].Aggregate, s.Model.Clusters[name].Suspect = agg, name == "gone"
	}
	for id, in := range map[string]string{"app.web.0": "edge", "app.web.1": "fog", "app.web.2": "gone",
		"app.web.3": "", "app.web.4": "edge"} {
		s.Model.Insts[id] = &wire.Instance{ID: id, App: "app", Service: "web", Ordinal: int(id[len(id)-1] - '0'),
			Cluster: in}
	}
	b, conn := roottest.NewLinkedBackend(t, s.Model)
	asked := 0
	exchangetest.OnAsk(t, conn, exchange.ClusterSubjects(), func(q rpc.Ask, _ string) (any, *wire.Problem) {
		asked++
		page := rpc.TopPage{}
		switch use := (&rpc.Use{CPU: 5}); {
		case q.What == "top" && q.Instance == "":
			// The first page is of what it has, and of what it has not; it says
			// that there is more for ever.
			page = rpc.TopPage{More: true,
				Instances: []rpc.InstanceTop{{ID: "app.web.0", Cluster: "x", Used: use}, {ID: "app.web.1", Used: use}}}
		case q.What == "top":
			page = rpc.TopPage{More: true, Instances: []rpc.InstanceTop{{ID: "app.web.0", Used: &rpc.Use{CPU: 6}}}}
		default:
			page.Workers = []rpc.WorkerTopView{{Name: "w1", Cluster: "x", Used: use},
				{Name: "w2", Problem: "no answer"}}
		}
		return page, nil
	})
	admin := access.With(t.Context(), access.Who{Admin: true})
	list, err := b.TopInstances(admin, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range list {
		use := "-"
		if v.Used != nil {
			use = fmt.Sprint(v.Used.CPU)
		}
		got = append(got, v.ID+" "+v.Cluster+" "+use+" "+v.Problem)
	}
	want := []string{
		"app.web.0 edge 6m ", "app.web.1 fog - cluster fog keeps its details to itself",
		"app.web.2 gone - cluster gone does not answer",
		"app.web.3  - it is in no cluster", "app.web.4 edge - its cluster does not have it yet",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	workers, err := b.TopWorkers(admin)
	if err != nil || len(workers) != 4 || workers[0].Cluster != "edge" || workers[0].Used.CPU != 5 ||
		workers[1].Problem != "no answer" ||
		workers[2].Cluster != "fog" || workers[2].Problem == "" || workers[3].Cluster != "gone" ||
		workers[3].Problem == "" {
		t.Errorf("%+v, %v", workers, err)
	}
	clusters, err := b.TopClusters(admin)
	if err != nil || len(clusters) != 3 || clusters[0].Measured != 1 || clusters[0].Workers != 2 ||
		clusters[1].Used != nil || clusters[1].Problem == "" ||
		clusters[1].Instances != 7 || clusters[1].Reserved.CPU != 3000 {
		t.Errorf("%+v, %v", clusters, err)
	}
	// Who may see nothing has nothing measured.
	asked = 0
	nobody := access.With(t.Context(), access.Who{Name: "user/nobody"})
	for what, n := range map[string]func() (int, error){
		"instances": func() (int, error) { l, err := b.TopInstances(nobody, ""); return len(l), err },
		"workers":   func() (int, error) { l, err := b.TopWorkers(nobody); return len(l), err },
		"clusters":  func() (int, error) { l, err := b.TopClusters(nobody); return len(l), err },
	} {
		if got, err := n(); err != nil || got != 0 || asked != 0 {
			t.Errorf("%s: %d, %v, asked %d times", what, got, err, asked)
		}
	}
}
