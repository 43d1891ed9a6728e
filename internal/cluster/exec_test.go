package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A step of a session goes to the worker that its id names, and its owner is who
// asks here, or who the root says asks there.
func TestSessionsArePassedOn(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Name: "user/ann"})
	c := newTestCore(t, bus.NewMemStore())
	c.m.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	c.m.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", Worker: "w1"}
	c.m.Insts["app.web.1"] = &wire.Instance{ID: "app.web.1"}
	b := backend{&Cluster{core: c}}
	var asked wire.ExecAsk
	stop, err := c.local.Subscribe(exchange.WorkerSubjects("w1").Ask, func(_ context.Context, m bus.Msg) {
		var q wire.Ask
		if err := json.Unmarshal(m.Data, &q); err != nil || q.What != "exec" {
			t.Errorf("the worker was asked %s", m.Data)
		}
		asked = *q.Exec
		answer := wire.ExecAnswer{Taken: 7}
		if asked.Do == wire.ExecDoStart {
			answer = wire.ExecAnswer{Session: "s1"}
		}
		data, err := json.Marshal(answer)
		if err != nil {
			t.Error(err)
		}
		data, err = json.Marshal(wire.Answer{V: wire.Version, Data: data})
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
	a, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoStart, Instance: "app.web.0", Owner: "site/eve", Start: &wire.ExecStart{Command: []string{"true"}}})
	if err != nil || a.Session != "s1.edge.w1.app.web.0" || asked.Owner != "site/user/ann" {
		t.Errorf("%+v, %v; asked %+v", a, err, asked)
	}
	a, err = b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoInput, Session: a.Session, Input: &wire.ExecInput{Offset: 3}})
	if err != nil || a.Taken != 7 || asked.Session != "s1" || asked.Instance != "app.web.0" || asked.Owner != "site/user/ann" {
		t.Errorf("%+v, %v; asked %+v", a, err, asked)
	}
	fromRoot := wire.Ask{What: "exec", Exec: &wire.ExecAsk{Do: wire.ExecDoEnd, Session: "s1.edge.w1.app.web.0", Owner: "user/bob"}}
	if _, err := c.answer(ctx, fromRoot); err != nil || asked.Owner != "root/user/bob" {
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
		_, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoEnd, Session: session})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%q: %v, want %s", session, err, want)
		}
	}
	for id, want := range map[string]string{"app.web.7": "no-such-instance", "app.web.1": "not-placed"} {
		_, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoStart, Instance: id})
		if p := new(wire.Problem); !errors.As(err, &p) || p.Code != want {
			t.Errorf("%q: %v, want %s", id, err, want)
		}
	}
	c.m.Details = false
	_, err = c.answer(ctx, fromRoot)
	if p := new(wire.Problem); !errors.As(err, &p) || p.Status != 403 {
		t.Errorf("a root that is not told details gets %v", err)
	}
}
