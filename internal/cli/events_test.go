package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// Events are listed by their time, also where the server heard of an earlier one later.
func TestEventsAreListedByTime(t *testing.T) {
	f := newFixture(t, &resttest.Fake{EventList: []apiv1.Event{
		{Seq: 1, At: noon, Tier: "root", Subject: "root", What: "second"},
		{Seq: 2, At: noon.Add(-time.Minute), Tier: "worker", Subject: "instance/a.b.0", What: "first"},
		{Seq: 3, At: noon.Add(time.Minute), Tier: "root", Subject: "root", What: "third"},
	}})
	out := f.run("events").stdout
	if a, b, c := strings.Index(out, "first"), strings.Index(out, "second"),
		strings.Index(out, "third"); a < 0 || a > b || b > c {
		t.Errorf("they are\n%s", out)
	}
}

// Events are chosen by their kind; a server of the version before sends none.
func TestEventsOfKinds(t *testing.T) {
	fake := &resttest.Fake{EventList: []apiv1.Event{
		{Seq: 1, At: noon, Tier: "root", Kind: "cluster.lost", Subject: "cluster/edge", What: "away"},
		{Seq: 2, At: noon, Tier: "root", Kind: "rollout.begun", Subject: "service/a.b", What: "begins"},
		{Seq: 3, At: noon, Tier: "root", Kind: "rollout.failed", Subject: "service/a.b", What: "has failed"},
	}}
	f := newFixture(t, fake)
	for kinds, want := range map[string]string{"cluster.lost,rollout.failed": "1 3", "rollout.*": "2 3", "*": "1 2 3",
		"worker.lost": ""} {
		out := f.run("events", "--kind", kinds, "-o", "name").stdout
		if got := strings.ReplaceAll(strings.Join(strings.Fields(out), " "), "event/", ""); got != want {
			t.Errorf("%s: %q, want %q", kinds, got, want)
		}
	}
	if out := f.run("events", "--kind", "cluster.*", "-o", "json").stdout; !strings.Contains(out,
		`"kind": "cluster.lost"`) || strings.Contains(out, "rollout") {
		t.Errorf("as JSON: %s", out)
	}
	if r := f.run("events", "--kind", "rollout.nonsense"); r.code == 0 ||
		!strings.Contains(r.stderr, "  → see docs/events.md") {
		t.Errorf("a kind that is not there: %+v", r)
	}
	fake.EventList = append(fake.EventList,
		apiv1.Event{Seq: 4, At: noon, Tier: "root", Subject: "cluster/edge", What: "as before"})
	if out := f.run("events").stdout; !strings.Contains(out, "as before") {
		t.Errorf("an event without a kind is missing: %s", out)
	}
	if r := f.run("events", "--kind", "cluster.lost"); r.code == 0 ||
		!strings.Contains(r.stderr, "older version") || !strings.Contains(r.stderr, "without --kind") {
		t.Errorf("of a server without kinds: %+v", r)
	}
}

// The columns of a wide list stand below each other, whatever the kinds.
func TestEventsInColumns(t *testing.T) {
	fake := &resttest.Fake{}
	for n, k := range event.Kinds() {
		fake.EventList = append(fake.EventList, apiv1.Event{Seq: uint64(n + 1), At: noon, Tier: "root", Kind: k.String(),
			Subject: "root", What: "what happened"})
	}
	at := -1
	for line := range strings.Lines(newFixture(t, fake).run("events", "-o", "wide").stdout) {
		if n := strings.Index(line, "what happened"); at < 0 {
			at = n
		} else if n != at {
			t.Errorf("the text begins in column %d instead of %d:\n%s", n, at, line)
		}
	}
	if at < 0 {
		t.Error("nothing was listed")
	}
}
