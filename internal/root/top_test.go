package root

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
)

// The root measures through the clusters that let themselves be asked, for who may
// see what it asks about, and says of all else why it is not measured.
func TestTop(t *testing.T) {
	s := newSim(t, "edge", "fog", "gone")
	for name, agg := range map[string]*wire.Aggregate{
		"edge": {Details: true}, "fog": {Workers: 3, Instances: 7, Capacity: api.Resources{CPU: 4000}, CPU: wire.Spread{Sum: 1000}}, "gone": {Details: true},
	} {
		s.m.clusters[name].agg, s.m.clusters[name].suspect = agg, name == "gone"
	}
	for id, in := range map[string]string{"app.web.0": "edge", "app.web.1": "fog", "app.web.2": "gone", "app.web.3": "", "app.web.4": "edge"} {
		s.m.insts[id] = &wire.Instance{ID: id, App: "app", Service: "web", Ordinal: int(id[len(id)-1] - '0'), Cluster: in}
	}
	conn := bus.NewMem().Conn("cluster", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	defer conn.Close()
	b := backend{&Root{core: &core{m: s.m, link: func(string) (bus.Conn, error) { return conn, nil }}}}
	asked := 0
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		asked++
		var q wire.Ask
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Error(err)
		}
		page := wire.TopPage{}
		switch use := (&wire.Use{CPU: 5}); {
		case q.What == "top" && q.Instance == "":
			// The first page is of what it has, and of what it has not; it says
			// that there is more for ever.
			page = wire.TopPage{More: true, Instances: []wire.InstanceTop{{ID: "app.web.0", Cluster: "x", Used: use}, {ID: "app.web.1", Used: use}}}
		case q.What == "top":
			page = wire.TopPage{More: true, Instances: []wire.InstanceTop{{ID: "app.web.0", Used: &wire.Use{CPU: 6}}}}
		default:
			page.Workers = []wire.WorkerTopView{{Name: "w1", Cluster: "x", Used: use}, {Name: "w2", Problem: "no answer"}}
		}
		data, err := json.Marshal(page)
		if err == nil {
			data, err = json.Marshal(wire.Answer{V: wire.Version, Data: data})
		}
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
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
		"app.web.0 edge 6m ", "app.web.1 fog - cluster fog keeps its details to itself", "app.web.2 gone - cluster gone does not answer",
		"app.web.3  - it is in no cluster", "app.web.4 edge - its cluster does not have it yet",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	workers, err := b.TopWorkers(admin)
	if err != nil || len(workers) != 4 || workers[0].Cluster != "edge" || workers[0].Used.CPU != 5 || workers[1].Problem != "no answer" ||
		workers[2].Cluster != "fog" || workers[2].Problem == "" || workers[3].Cluster != "gone" || workers[3].Problem == "" {
		t.Errorf("%+v, %v", workers, err)
	}
	clusters, err := b.TopClusters(admin)
	if err != nil || len(clusters) != 3 || clusters[0].Measured != 1 || clusters[0].Workers != 2 || clusters[1].Used != nil || clusters[1].Problem == "" ||
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
