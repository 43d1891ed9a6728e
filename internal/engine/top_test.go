package engine

import (
	"testing"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestTop(t *testing.T) {
	b := newBench(t)
	o := serverOrder(t)
	b.apply(o)
	b.ready(0)
	remote := func() rpc.WorkerTop {
		t.Helper()
		var top rpc.WorkerTop
		b.json("/v1/top", &top)
		return top
	}
	first := remote()
	if len(first.Instances) != 1 || first.Instances[0].ID != web0 || first.Instances[0].Memory < 100<<10 ||
		first.SpanMs < 400 {
		t.Fatalf("%+v", first)
	}
	a, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoStart, Owner: "ann", Instance: web0, Start: &rpc.ExecStart{
		Key: wire.NewID(), Command: []string{"sh", "-c", "while :; do :; done"},
	}})
	if code != "" {
		t.Fatal(code)
	}
	if len(b.status(web0).ID) > 0 && b.grouped() {
		b.until("a busy program counts", func() bool {
			top := remote()
			return top.Instances[0].CPU > 20 && top.Instances[0].Tasks > first.Instances[0].Tasks
		})
	}
	if _, code := b.exec(rpc.ExecAsk{Do: rpc.ExecDoEnd, Owner: "ann", Instance: web0, Session: a.Session}); code != "" {
		t.Error(code)
	}
}
