package cluster

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker that has joined has time to report: it is not taken for one that has been silent.
func TestAWorkerThatHasJoinedIsNotSilent(t *testing.T) {
	s := newSite(t)
	if err := s.c.keepWorker(t.Context(), "new", state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "new"}}); err != nil {
		t.Fatal(err)
	}
	w := s.c.m.Workers["new"]
	if since := time.Since(w.Heard); since < 0 || since > time.Hour {
		t.Fatalf("it was heard %s ago", since)
	}
	if s.c.judge(time.Now()); w.Suspect {
		t.Error("it is suspect before it could report")
	}
}
