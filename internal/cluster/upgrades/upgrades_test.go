package upgrades_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// rolling is a cluster of workers of which one at a time is upgraded.
func rolling(t *testing.T, now time.Time, workers ...string) *state.Model {
	t.Helper()
	m := state.NewModel("edge", true, now)
	for _, name := range workers {
		w := state.NewWorker(state.WorkerRecord{Joined: now.Add(-time.Hour),
			Info: wire.WorkerInfo{Name: name, OS: "linux", Arch: "amd64", Version: "v1"}}, now)
		w.EverHeard = true
		m.Workers[name] = w
	}
	q := apiv1.UpgradeRequest{Programs: []wire.Program{{OS: "linux", Arch: "amd64", SHA256: strings.Repeat("ab", 32),
		Size: 10}}}
	if err := q.Fill(); err != nil {
		t.Fatal(err)
	}
	upgrades.Table.Rows(m.DB)[""] = &upgrades.Record{V: wire.Version, ID: "u1", Request: q, At: now,
		State: apiv1.UpgradeRolling}
	return m
}

// step takes over what a look decides, and returns the phases that changed and who is asked.
func step(m *state.Model, now time.Time) string {
	s := upgrades.NextStep(m, now)
	changed := map[string]wave.Phase{}
	for name, r := range s.Workers {
		upgrades.WorkerTable.Rows(m.DB)[name], changed[name] = r, r.Phase
	}
	if s.Record != nil {
		upgrades.Table.Rows(m.DB)[""] = s.Record
	}
	return fmt.Sprintf("%v %v %s", changed, slices.Sorted(maps.Keys(s.Asks)), upgrades.Current(m).State)
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %s, want %s", what, got, want)
	}
}

// heard takes over what a worker says of the try that it was asked about.
func heard(t *testing.T, m *state.Model, name, tryState string, now time.Time) {
	t.Helper()
	try := rpc.UpgradeTry{V: wire.Version, Key: upgrades.WorkerTable.Rows(m.DB)[name].Key, State: tryState}
	r, _ := upgrades.HeardTry(m, name, &try, now)
	if r == nil {
		t.Fatalf("what %s says changes nothing", name)
	}
	upgrades.WorkerTable.Rows(m.DB)[name] = r
}

// No worker begins before the one before it was watched for as long as the request says.
func TestWavesFollowEachOther(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := rolling(t, now, "w0", "w1")
	soak := upgrades.Current(m).Request.Soak.Std()
	want(t, "the first", step(m, now), "map[w0:"+fmt.Sprint(wave.Begun)+"] [w0] rolling")
	want(t, "while it works", step(m, now.Add(time.Second)), "map[] [w0] rolling")
	now = now.Add(2 * time.Second)
	heard(t, m, "w0", rpc.TryDone, now)
	want(t, "while it is watched", step(m, now.Add(soak-time.Second)), "map[] [] rolling")
	got := step(m, now.Add(soak))
	if !strings.HasPrefix(got, "map[w0:"+fmt.Sprint(wave.Passed)) {
		t.Errorf("after it was watched: %s", got)
	}
	if step(m, now.Add(soak+time.Second)); upgrades.WorkerTable.Rows(m.DB)["w1"] == nil {
		t.Error("the second does not begin")
	}
}

// A worker that does not come back has failed, which stops the upgrade; it is asked until it
// has gone back.
func TestAWorkerThatDoesNotComeBack(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := rolling(t, now, "w0", "w1")
	step(m, now)
	now = now.Add(time.Second)
	heard(t, m, "w0", rpc.TryDone, now)
	m.Workers["w0"].Suspect = true
	now = now.Add(upgrades.Current(m).Request.WorkerTimeout.Std() + wire.RecoverWithin)
	got := step(m, now)
	want(t, "away", got, "map[w0:"+fmt.Sprint(wave.Failed)+"] [w0] "+apiv1.UpgradeHalted)
	want(t, "later", step(m, now.Add(time.Hour)), "map[] [w0] "+apiv1.UpgradeHalted)
	heard(t, m, "w0", rpc.TryDone, now.Add(time.Hour))
	want(t, "when it has gone back", step(m, now.Add(2*time.Hour)), "map[] [] "+apiv1.UpgradeHalted)
}
