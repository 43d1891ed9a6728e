package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// Events are listed by their time, also where the server heard of an earlier one later.
func TestEventsAreListedByTime(t *testing.T) {
	f := newFixture(t, &resttest.Fake{EventList: []wire.Event{
		{Seq: 1, At: noon, Tier: "root", Subject: "root", What: "second"},
		{Seq: 2, At: noon.Add(-time.Minute), Tier: "worker", Subject: "instance/a.b.0", What: "first"},
		{Seq: 3, At: noon.Add(time.Minute), Tier: "root", Subject: "root", What: "third"},
	}})
	out := f.run("events").stdout
	if a, b, c := strings.Index(out, "first"), strings.Index(out, "second"), strings.Index(out, "third"); a < 0 || a > b || b > c {
		t.Errorf("they are\n%s", out)
	}
}
