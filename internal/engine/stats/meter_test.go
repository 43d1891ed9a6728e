package stats

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestBetweenSamples(t *testing.T) {
	at := time.Unix(100, 0)
	one, other := runtime.Handle{PID: 1}, runtime.Handle{PID: 1, Started: 7}
	before := sample{at: at, use: map[runtime.Handle]used{one: {"a.b.0",
		runtime.Usage{CPU: time.Second, Memory: 5, Tasks: 1}}}}
	now := sample{at: at.Add(2 * time.Second), use: map[runtime.Handle]used{
		one:   {"a.b.0", runtime.Usage{CPU: 2500 * time.Millisecond, Memory: 7, Tasks: 3}},
		other: {"a.a.0", runtime.Usage{CPU: time.Second, Memory: -1, Tasks: -1}},
	}}
	got := between(before, now)
	if got.SpanMs != 2000 || len(got.Instances) != 2 ||
		got.Instances[0] != (rpc.InstanceUse{ID: "a.a.0", Use: rpc.Use{CPU: 500}}) ||
		got.Instances[1] != (rpc.InstanceUse{ID: "a.b.0", Use: rpc.Use{CPU: 750, Memory: 7, Tasks: 3}}) {
		t.Errorf("%+v", got)
	}
	if got := between(now, before); got.Instances[0].CPU != 0 {
		t.Errorf("backwards: %+v", got)
	}
}
