package event

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

var update = flag.Bool("update", false, "write docs/events.md anew")

var kindName = regexp.MustCompile(`^[a-z]+\.[a-z]+(-[a-z]+)*$`)

func TestKinds(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		if found, ok := Find(k.String()); !ok || found != k {
			t.Errorf("%s is found as %v", k, found)
		}
		means := k.Means()
		if !kindName.MatchString(k.String()) || k.About() == "" || means == "" || strings.HasSuffix(means, ".") {
			t.Errorf("%s about %q: %q; a name is like instance.moved, a meaning has no full stop", k, k.About(), means)
		}
	}
	if _, ok := Find("instance.nonsense"); ok {
		t.Error("a kind was found that nobody has registered")
	}
	defer func() {
		if recover() == nil {
			t.Error("two kinds have one name")
		}
	}()
	register("instance.moved", Instance, Info, NoHooks, "twice")
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	at := time.Unix(1, 0)
	for want, e := range map[string]Event{
		"instance/shop.web.0": InstanceReady.On("shop.web.0", "%s", "x"),
		"worker/edge/w1":      WorkerBack.On(WorkerName("edge", "w1"), "x"),
		"root":                RootRecovery.On("", "x"),
		"system/root":         RootBackup.On("root", "x"),
		"":                    {Text: "x"},
	} {
		if e = e.By(at, "root"); e.Subject() != want || e.Text != "x" || e.Tier != "root" || !e.At.Equal(at) {
			t.Errorf("%+v is about %q, want %q", e, e.Subject(), want)
		}
	}
}

func TestToldTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind               Kind
		root, cluster, any bool
	}{
		{InstanceFailed, true, true, true},
		{ClusterLost, true, false, true},
		{WorkerLost, false, true, true},
		{InstanceReady, false, false, false},
		{Kind{}, false, false, false},
	} {
		if c.kind.Told("root") != c.root || c.kind.Told("cluster") != c.cluster || c.kind.Told("") != c.any {
			t.Errorf("%s is told to %q, want %+v", c.kind, c.kind.Hooks(), c)
		}
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for patterns, want := range map[string]bool{
		"": false, "rollout.failed": true, "rollout.*": true, "*": true, "worker.lost,rollout.failed": true,
		"rollout": false, "rollout.f*": false, "rollout.failed.*": false, "worker.*": false,
	} {
		if got := Matches(strings.Split(patterns, ","), "rollout.failed"); got != want {
			t.Errorf("%q: %v", patterns, got)
		}
	}
}

func TestKindsOfSteps(t *testing.T) {
	t.Parallel()
	for want, h := range map[Kind]wire.Transition{
		InstanceRegistered:       {To: wire.Registered},
		InstanceWaiting:          {To: wire.Requested},
		InstanceClusterScheduled: {To: wire.ClusterScheduled},
		InstanceWorkerScheduled:  {To: wire.WorkerScheduled},
		InstanceMoved:            {To: wire.WorkerScheduled, Cause: wire.CauseMoved},
		InstanceRunning:          {To: wire.Running},
		InstanceEnded:            {To: wire.Terminated},
		InstanceFailed:           {To: wire.Failed, Why: "exited with 1"},
		InstancePreempted:        {To: wire.Failed, Cause: wire.CauseDisplaced},
	} {
		h.Tier = "cluster/edge"
		if e := Step("a.b.0", h); e.Kind != want || e.Tier != h.Tier || e.Text != fmt.Sprintf("%s: %s", h.To, h.Why) {
			t.Errorf("%+v, want %s", e, want)
		}
	}
	for outcome, want := range map[string]Kind{
		wire.JobComplete: JobSucceeded, wire.JobFailed: JobFailed, wire.JobReplaced: JobStopped, "": JobRunBegun,
	} {
		if got := OfRun(outcome); got != want {
			t.Errorf("outcome %q: %s, want %s", outcome, got, want)
		}
	}
}

// TestPage keeps docs/events.md current: go generate rewrites it.
func TestPage(t *testing.T) {
	const file = "../../docs/events.md"
	want := page()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is out of date (%v): go generate ./internal/event", file, err)
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`<!-- Made from the table in internal/event by "go generate ./internal/event". Do not edit. -->
# Events

A root and a cluster record what happens to what they manage. Each event has a time, the tier that reports it, a kind, a subject and a text.

    verge events                              oldest first
    verge events -f                           and new ones as they happen
    verge events --kind instance.failed,rollout.*
    verge events -o json

| | |
|---|---|
| where | in memory of each root and cluster, the newest 2,000. A root also has what its clusters report of instances and sites |
| who sees them | whoever may see the subject ([access.md](access.md)) |
| log | each root and cluster logs its own events, with the kind as ` + "`event`" + ` and the level of the table |
| [hooks](hooks.md) | receive the kinds that the table names a tier for, which are stored until delivered |
| JSON | ` + "`seq`, `at`, `tier`, `kind`, `subject`, `what`" + ` and, for applications and their instances, ` + "`namespace`" + `. Earlier versions send no ` + "`kind`" + ` |

Kinds keep their name and meaning; new versions add kinds. Texts are for people and may change.

## Kinds

| Kind | Subject | Level | Hooks of | What has happened to the subject |
|---|---|---|---|---|
`)
	for _, k := range Kinds() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k, k.About(), k.Severity(), k.Hooks(), k.Means())
	}
	return b.String()
}
