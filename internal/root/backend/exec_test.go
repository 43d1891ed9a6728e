package backend_test

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A step of a session goes to the cluster that it is in, unless that keeps its
// inside to itself; what the cluster refuses keeps its code.
func TestSessionsArePassedOn(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Name: "user/ann"})
	s := roottest.NewSim(t, "edge", "fog")
	s.Model.Clusters["edge"].Aggregate = &wire.Aggregate{Details: true}
	s.Model.Clusters["fog"].Aggregate = &wire.Aggregate{}
	s.Model.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", Cluster: "edge"}
	s.Model.Insts["app.web.1"] = &wire.Instance{ID: "app.web.1", Cluster: "fog"}
	s.Model.Insts["app.web.2"] = &wire.Instance{ID: "app.web.2", State: wire.Requested}
	b, conn := roottest.NewLinkedBackend(t, s.Model)
	var asked string
	reply := `{"v":1,"d":{"session":"s1.edge.w1.app.web.0"}}`
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		asked = string(m.Data)
		if err := m.Respond([]byte(reply)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	a, err := b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.0"})
	if err != nil || a.Session != "s1.edge.w1.app.web.0" {
		t.Errorf("%+v, %v", a, err)
	}
	if want := `{"w":"exec","x":{"do":"start","owner":"user/ann","instance":"app.web.0"}}`; asked != want {
		t.Errorf("the cluster was asked %s, want %s", asked, want)
	}
	if _, err = b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: a.Session}); err != nil {
		t.Error(err)
	}
	if want := `{"w":"exec","x":{"do":"end","owner":"user/ann","session":"s1.edge.w1.app.web.0"}}`; asked != want {
		t.Errorf("the cluster was asked %s, want %s", asked, want)
	}
	reply = `{"v":1,"e":"x","p":{"status":429,"code":"too-many-sessions","title":"x"}}`
	for _, c := range []struct {
		ask  rpc.ExecAsk
		want string
	}{
		{rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.0"}, "too-many-sessions"},
		{rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.1"}, "kept-private"},
		{rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.2"}, "not-placed"},
		{rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.3"}, "no-such-instance"},
		{rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: "s1.fog.w1.app.web.1"}, "kept-private"},
		{rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: "s1.far.w1.app.web.1"}, "no-such-cluster"},
		{rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: "s1"}, "no-such-session"},
	} {
		_, err := b.Exec(ctx, c.ask)
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != c.want {
			t.Errorf("%+v: %v, want %s", c.ask, err, c.want)
		}
	}
}
