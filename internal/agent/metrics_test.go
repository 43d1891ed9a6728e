package agent

import (
	"errors"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A worker is measured when somebody asks: both processes in one text, and the
// agent alone where the engine does not answer.
func TestMetricsOfBothProcesses(t *testing.T) {
	h := newFakeEngine("e1")
	a := newTestAgent(h)
	a.source.Set("a.b.0", []byte("x"))
	a.source.Set("a.b.1", []byte("x"))
	measure := func() string {
		t.Helper()
		v, err := a.answer(t.Context(), rpc.Ask{What: rpc.AskMetrics})
		if err != nil {
			t.Fatal(err)
		}
		page, ok := v.(rpc.MetricsPage)
		if !ok || page.V != wire.Version {
			t.Fatalf("the answer is %+v", v)
		}
		text, err := obs.Unpack(page.Text)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := func(text string, lines ...string) {
		t.Helper()
		for _, l := range lines {
			if !strings.Contains(text, l) {
				t.Errorf("lacks %s:\n%s", l, text)
			}
		}
	}
	want(measure(), `verge_engine_up{process="agent"} 1`, `verge_link_up{process="agent"} 0`, `verge_worker_starts_total{process="engine"} 3`,
		`verge_link_unacknowledged_changes{process="agent"} 2`, `verge_disk_written_bytes_total{process="agent"}`)
	a.answered(nil)
	a.acked(a.source.Rev())
	a.answered(errors.New("away"))
	h.down = true
	want(measure(), `verge_engine_up{process="agent"} 0`, `verge_link_up{process="agent"} 0`, `verge_link_failures_total{process="agent"} 1`,
		`verge_link_unacknowledged_changes{process="agent"} 0`, "verge_link_answer_age_seconds")
}
