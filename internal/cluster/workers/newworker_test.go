package workers_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker that has joined has time to report: it is not taken for one that has been silent.
func TestAWorkerThatHasJoinedIsNotSilent(t *testing.T) {
	s := clustertest.NewSite(t)
	if err := workers.KeepWorker(t.Context(), s.Core, "new",
		state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "new"}}); err != nil {
		t.Fatal(err)
	}
	w := s.Core.M.Workers["new"]
	if since := time.Since(w.Heard); since < 0 || since > time.Hour {
		t.Fatalf("it was heard %s ago", since)
	}
	if workers.Judge(s.Core, time.Now()); w.Suspect {
		t.Error("it is suspect before it could report")
	}
}
