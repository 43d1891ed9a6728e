package hooks

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

// What becomes of nodes is told from the events of the tier, and of nothing else.
func TestNodesAreToldFromEvents(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t)
	w.set("", "all", r.URL, wire.HookSpec{On: []string{"*"}})
	at := time.Now().Round(0)
	for i, e := range []event.Event{
		event.ClusterBack.On("edge", "reports again"), // it was not lost
		event.ClusterJoined.On("edge", "joined"),
		event.ClusterLost.On("edge", "away"),
		event.ClusterLost.On("edge", "still"),
		event.InstanceFailed.On("a.b.0", "Failed: told from its record"),
		event.ClusterCordon.On("edge", "no hook is told of it"),
		event.ClusterBack.On("edge", "reports again"),
		event.ClusterRemoved.On("edge", "removed"),
		event.WorkerLost.On("edge/w1", "suspect"),
	} {
		w.events.Own(at.Add(time.Duration(i)), e)
	}
	for _, want := range []string{"cluster.joined joined", "cluster.lost away", "cluster.back reports again",
		"cluster.removed removed", "worker.lost suspect"} {
		g := r.next(t)
		subject := "cluster/edge"
		if g.Type == event.WorkerLost.String() {
			subject = "worker/edge/w1"
		}
		if g.Type+" "+g.Data.What != want || g.Data.Subject != subject || g.Data.Cluster != "edge" ||
			g.Data.Source != "root" {
			t.Errorf("came %s, want %s", g.body, want)
		}
	}
}

// A process without hooks has a nil Keeper, and calls it as any other.
func TestANilKeeperTellsNobody(t *testing.T) {
	t.Parallel()
	var k *Keeper
	k.Event(event.WorkerLost.On("edge/w1", "suspect"))
	k.Tell(Notice{Kind: event.WorkerLost})
	if k.Any() || k.Asks("apply", "shop") || len(k.Gates("apply")) > 0 || len(k.Hooks("", true)) > 0 ||
		len(k.Of("shop")) > 0 || len(k.Subjects("")) > 0 || k.NamespaceOf("worker/edge/w1") != "" ||
		len(k.Unread()) > 0 || len(k.Samples()) > 0 {
		t.Error("it has hooks")
	}
	if warnings, err := k.Ask(t.Context(), wire.HookData{}); err != nil || len(warnings) > 0 {
		t.Errorf("asked: %v, %v", warnings, err)
	}
	k.Close()
}
