package backend

import (
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A step of a session goes to the worker that its id names, and its owner is who
// asks here, or who the root says asks there.
func TestSessionsArePassedOn(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Name: "user/ann"})
	c := clustertest.NewCore(t, bustest.NewMemStore())
	c.M.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	c.M.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", Worker: "w1"}
	c.M.Insts["app.web.1"] = &wire.Instance{ID: "app.web.1"}
	b := &Backend{Core: c}
	var asked rpc.ExecAsk
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects("w1"), func(q rpc.Ask, sent string) (any, *wire.Problem) {
		if q.What != "exec" {
			t.Errorf("the worker was asked %s", sent)
		}
		asked = *q.Exec
		if asked.Do == rpc.ExecDoStart {
			return rpc.ExecAnswer{Session: "s1"}, nil
		}
		return rpc.ExecAnswer{Taken: 7}, nil
	})
	a, err := b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: "app.web.0", Owner: "site/eve",
		Start: &rpc.ExecStart{Command: []string{"true"}}})
	if err != nil || a.Session != "s1.edge.w1.app.web.0" || asked.Owner != "site/user/ann" {
		t.Errorf("%+v, %v; asked %+v", a, err, asked)
	}
	a, err = b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoInput, Session: a.Session, Input: &rpc.ExecInput{Offset: 3}})
	if err != nil || a.Taken != 7 || asked.Session != "s1" || asked.Instance != "app.web.0" ||
		asked.Owner != "site/user/ann" {
		t.Errorf("%+v, %v; asked %+v", a, err, asked)
	}
	fromRoot := rpc.Ask{What: "exec", Exec: &rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: "s1.edge.w1.app.web.0",
		Owner: "user/bob"}}
	if _, err := answer.Answer(ctx, c, fromRoot); err != nil || asked.Owner != "root/user/bob" {
		t.Errorf("%v; asked %+v", err, asked)
	}
	for session, want := range map[string]string{
		"":                      "no-such-session",
		"s1":                    "no-such-session",
		"s1.fog.w1.app.web.0":   "no-such-session",
		"s1.edge.w2.app.web.0":  "no-such-session",
		"s1.edge.*.app.web.0":   "no-such-session",
		"s1.edge.w1.app.web":    "no-such-session",
		"s1.edge.w1.app.web.0.": "no-such-session",
	} {
		_, err := b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: session})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%q: %v, want %s", session, err, want)
		}
	}
	for id, want := range map[string]string{"app.web.7": "no-such-instance", "app.web.1": "not-placed"} {
		_, err := b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoStart, Instance: id})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%q: %v, want %s", id, err, want)
		}
	}
	c.M.Details = false
	_, err = answer.Answer(ctx, c, fromRoot)
	if p := new(wire.Problem); !errors.As(err, &p) || p.Status != 403 {
		t.Errorf("a root that is not told details gets %v", err)
	}
}
