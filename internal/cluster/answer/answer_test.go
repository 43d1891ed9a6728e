package answer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// newCluster has the worker w1.
func newCluster(t *testing.T) *core.Core {
	t.Helper()
	c := clustertest.NewCore(t, bustest.NewMemStore())
	c.M.Workers["w1"] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"}}, time.Now())
	return c
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	var p *wire.Problem
	if !errors.As(err, &p) || p.Code != code || p.Remedy == "" {
		t.Errorf("%s: %v, want %s with a remedy", what, err, code)
	}
}

func TestDetailsStayWhereTheyAreNotShared(t *testing.T) {
	c := newCluster(t)
	c.M.Details = false
	for _, what := range []string{rpc.AskLogs, rpc.AskExplain, rpc.AskWorkers, rpc.AskEntries, rpc.AskMetrics,
		rpc.AskRoute, rpc.AskNet, rpc.AskVolumes, rpc.AskScale, rpc.AskTop, rpc.AskTopWorkers, rpc.AskExec,
		rpc.AskCordon, rpc.AskUncordon, rpc.AskDrain, "another"} {
		got, err := answer.Answer(t.Context(), c, rpc.Ask{What: what, Worker: "w1", Instance: "app.web.0",
			Exec: &rpc.ExecAsk{}, Cordon: &rpc.CordonAsk{}})
		if wantCode(t, what, err, "kept-private"); got != nil {
			t.Errorf("%s: %+v is told", what, got)
		}
	}
	if c.M.Workers["w1"].Cordon != nil {
		t.Error("a worker was cordoned")
	}
	for what, q := range map[string]rpc.Ask{
		"holdings": {What: rpc.AskHoldings},
		"a plan":   {What: rpc.AskPlan, Plan: &rpc.PlanAsk{App: "app"}},
	} {
		if _, err := answer.Answer(t.Context(), c, q); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	c.M.Details = true
	if _, err := answer.Answer(t.Context(), c, rpc.Ask{What: rpc.AskWorkers}); err != nil {
		t.Errorf("shared: %v", err)
	}
}

func TestWhoAsksThroughTheRoot(t *testing.T) {
	c := newCluster(t)
	ctx := access.With(t.Context(), access.Who{Name: "admin"})
	q := rpc.Ask{What: rpc.AskCordon, Worker: "w1", Cordon: &rpc.CordonAsk{By: "admin"}}
	if _, err := answer.Answer(ctx, c, q); err != nil {
		t.Fatal(err)
	}
	if got := c.M.Workers["w1"].Cordon; got == nil || got.By != "root/admin" {
		t.Errorf("it was cordoned by %+v, want root/admin", got)
	}
}

func TestUnknownQuestions(t *testing.T) {
	c := newCluster(t)
	for _, what := range []string{"", "another", rpc.AskExec, rpc.AskCordon, rpc.AskUncordon} { // without their parts
		_, err := answer.Answer(t.Context(), c, rpc.Ask{What: what})
		wantCode(t, what, err, "unknown-question")
	}
}
