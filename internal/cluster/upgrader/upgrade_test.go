package upgrader_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrader"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// upgradeSite is a cluster with workers that answer from a table.
type upgradeSite struct {
	*core.Core
	t     *testing.T
	store *bustest.MemStore
	now   time.Time
	mu    sync.Mutex
	asked map[string]rpc.UpgradeAsk // the last of each worker
	tries map[string]rpc.UpgradeTry // by key; what is not there goes on
	old   map[string]bool           // of a version that knows no upgrades
}

func newUpgrades(t *testing.T, workers ...string) *upgradeSite {
	t.Helper()
	u := &upgradeSite{t: t, store: bustest.NewMemStore(), now: time.Now(), asked: map[string]rpc.UpgradeAsk{},
		tries: map[string]rpc.UpgradeTry{}, old: map[string]bool{}}
	u.Core = clustertest.NewCore(t, u.store)
	for _, name := range workers {
		u.join(name)
		stop, err := u.Local.Subscribe(exchange.WorkerSubjects(name).Ask,
			func(_ context.Context, m bus.Msg) { u.answerAs(name, m) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	return u
}

func (u *upgradeSite) join(name string) {
	w := state.NewWorker(state.WorkerRecord{V: 1,
		Info:   wire.WorkerInfo{V: 1, Name: name, Version: "v1", OS: "linux", Arch: "amd64"},
		Joined: u.now.Add(-time.Hour)}, u.now)
	w.EverHeard, w.Status["app.web."+name[1:]] = true,
		wire.InstanceStatus{V: 1, ID: "app.web." + name[1:], Incarnation: 1, Phase: wire.PhaseRunning, Ready: true}
	b, err := json.Marshal(w.WorkerRecord)
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err := u.store.Put(context.Background(), state.KeyWorker+name, b); err != nil {
		u.t.Fatal(err)
	}
	u.M.Workers[name] = w
	u.M.Insts["app.web."+name[1:]] = &wire.Instance{V: 1, ID: "app.web." + name[1:], App: "app", Service: "web",
		State: wire.Running, Worker: name, Incarnation: 1, Conditions: wire.Conditions{Ready: true}}
}

func (u *upgradeSite) answerAs(name string, m bus.Msg) {
	u.mu.Lock()
	defer u.mu.Unlock()
	var q rpc.Ask
	if err := json.Unmarshal(m.Data, &q); err != nil || q.Upgrade == nil {
		u.t.Errorf("%s was asked %s, %v", name, m.Data, err)
		return
	}
	a := rpc.Answer{V: 1}
	u.asked[name] = *q.Upgrade
	try, ok := u.tries[q.Upgrade.Key]
	if !ok {
		try = rpc.UpgradeTry{V: 1, Key: q.Upgrade.Key, State: rpc.TryGoesOn, Why: "it fetches the program"}
	}
	a.Data, _ = json.Marshal(try)
	if u.old[name] {
		a = rpc.Answer{V: 1, Problem: wire.Problemf(400, "unknown-question", "", "it does not know that", ""),
			Error: "it does not know that"}
	}
	b, err := json.Marshal(a)
	if err == nil {
		err = m.Respond(b)
	}
	if err != nil {
		u.t.Error(err)
	}
}

// says lets a worker say how the try that it was asked about last has ended.
func (u *upgradeSite) says(name, state, why string, again bool) {
	u.t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	key := u.asked[name].Key
	if key == "" {
		u.t.Fatalf("%s was asked nothing", name)
	}
	u.tries[key] = rpc.UpgradeTry{V: 1, Key: key, State: state, Why: why, Again: again, Agent: "v2"}
}

// look looks at the upgrade after some seconds, twice: what was heard counts at the next.
func (u *upgradeSite) look(after time.Duration) {
	u.t.Helper()
	u.now = u.now.Add(after)
	for range 2 {
		if _, err := upgrader.LookAtUpgrade(context.Background(), u.Core, u.now); err != nil {
			u.t.Fatal(err)
		}
	}
}

func (u *upgradeSite) begin(q apiv1.UpgradeRequest) {
	u.t.Helper()
	q.Programs = []wire.Program{{OS: "linux", Arch: "amd64", SHA256: strings.Repeat("ab", 32), Size: 10}}
	if err := q.Fill(); err != nil {
		u.t.Fatal(err)
	}
	rec := &upgrades.Record{V: 1, ID: wire.NewID(), Request: q, By: "user/op", At: u.now, State: apiv1.UpgradeRolling}
	if err := upgrader.KeepUpgrade(context.Background(), u.Core, rec, nil, nil, u.now); err != nil {
		u.t.Fatal(err)
	}
	u.look(0)
}

// expect compares the state, and the phases of the workers by name.
func (u *upgradeSite) expect(state, phases string) {
	u.t.Helper()
	v := upgrades.View(u.M, u.now)
	var got []string
	for _, w := range v.Workers {
		got = append(got, w.Name+" "+w.Phase)
	}
	if v.State != state || strings.Join(got, ", ") != phases {
		b, _ := json.MarshalIndent(v, "", " ")
		u.t.Fatalf("%s: %s; want %s: %s\n%s", v.State, strings.Join(got, ", "), state, phases, b)
	}
}

func TestUpgradeInWaves(t *testing.T) {
	u := newUpgrades(t, "w0", "w1", "w2")
	u.M.Workers["w1"].Suspect = true
	u.begin(apiv1.UpgradeRequest{})
	u.expect(apiv1.UpgradeRolling, "w0 upgrading, w1 waiting, w2 waiting")
	if q := u.asked["w0"]; q.Program == nil || q.Program.SHA256 != strings.Repeat("ab", 32) || len(u.asked) != 1 {
		t.Errorf("asked %+v", u.asked)
	}
	u.says("w0", rpc.TryDone, "", false)
	u.look(time.Second)
	u.expect(apiv1.UpgradeRolling, "w0 watched, w1 waiting, w2 waiting")
	u.look(11 * time.Second)
	u.expect(apiv1.UpgradeRolling, "w0 done, w1 waiting, w2 upgrading") // who is away waits
	u.says("w2", rpc.TryDone, "", false)
	u.look(time.Second)
	u.look(11 * time.Second)
	u.expect(apiv1.UpgradeRolling, "w0 done, w1 waiting, w2 done")
	u.M.Workers["w1"].Suspect = false
	u.look(time.Second)
	u.says("w1", rpc.TryDone, "", false)
	u.look(time.Second)
	u.look(11 * time.Second)
	u.expect(apiv1.UpgradeDone, "w0 done, w1 done, w2 done")
	// Who joins later is left alone.
	u.now = u.now.Add(2 * time.Hour)
	u.join("w3")
	u.look(time.Second)
	u.expect(apiv1.UpgradeDone, "w0 done, w1 done, w2 done, w3 skipped")
	// All go back.
	made := map[string]string{}
	for name, q := range u.asked {
		made[name] = q.Key
	}
	b := &backend.Backend{Core: u.Core}
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradeUndo, apiv1.UpgradeAction{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w0", "w1", "w2"} {
		u.look(time.Second)
		if q := u.asked[name]; q.Undo != made[name] || q.Program != nil {
			t.Errorf("%s was asked %+v, want back from %s", name, q, made[name])
		}
		u.says(name, rpc.TryDone, "", false)
		u.look(time.Second)
		u.look(11 * time.Second)
	}
	u.expect(apiv1.UpgradeDone, "w0 done, w1 done, w2 done, w3 skipped")
}

// One worker that fails, in whichever way, is the last that is touched.
func TestUpgradeHalts(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(u *upgradeSite)
		why  string
		back bool // the cluster must tell it to go back
	}{
		"it went back": {func(u *upgradeSite) {
			u.says("w0", rpc.TryFailed, "exit status 3",
				false)
			u.look(time.Second)
		}, "exit status 3", false},
		"it hangs": {func(u *upgradeSite) { u.look(11 * time.Minute) }, "does not say within", true},
		"it vanishes": {func(u *upgradeSite) {
			u.says("w0", rpc.TryDone, "", false)
			u.look(time.Second)
			u.M.Workers["w0"].Suspect = true
			u.look(11 * time.Minute)
		}, "has not been heard", true},
		"what runs there is not ready": {func(u *upgradeSite) {
			u.says("w0", rpc.TryDone, "", false)
			u.look(time.Second)
			u.M.Workers["w0"].Status["app.web.0"] = wire.InstanceStatus{V: 1, ID: "app.web.0", Incarnation: 1,
				Phase: wire.PhaseRunning}
			u.look(30 * time.Second)
			u.expect(apiv1.UpgradeRolling, "w0 watched, w1 waiting")
			u.look(time.Minute)
		}, "app.web.0 is not ready", true},
		"what runs there was started again": {func(u *upgradeSite) {
			u.says("w0", rpc.TryDone, "", false)
			u.look(time.Second)
			u.M.Workers["w0"].Status["app.web.0"] = wire.InstanceStatus{V: 1, ID: "app.web.0", Incarnation: 1,
				Phase: wire.PhaseRunning, Ready: true, Restarts: 2}
			u.look(2 * time.Minute)
		}, "started again 2 times", true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpgrades(t, "w0", "w1")
			u.begin(apiv1.UpgradeRequest{})
			c.fail(u)
			u.look(time.Second)
			u.expect(apiv1.UpgradeHalted, "w0 failed, w1 waiting")
			v := upgrades.View(u.M, u.now)
			if !strings.Contains(v.Workers[0].Why, c.why) {
				t.Errorf("it says %q, want %q", v.Workers[0].Why, c.why)
			}
			if q := u.asked["w0"]; (q.Undo != "") != c.back {
				t.Errorf("it was asked %+v last", q)
			}
			if _, asked := u.asked["w1"]; asked {
				t.Error("the next one was touched")
			}
			if !c.back {
				return
			}
			u.says("w0", rpc.TryDone, "", false)
			u.look(time.Second)
			if r := upgrades.WorkerTable.Rows(u.M.DB)["w0"]; r.Undo || !strings.Contains(r.Why, "it has gone back") {
				t.Errorf("it has gone back: %+v", r)
			}
		})
	}
}

// A link that fails in between costs a try; what cannot be upgraded is skipped and named.
func TestUpgradeTriesAgainAndSkips(t *testing.T) {
	u := newUpgrades(t, "w0", "w1", "w2", "w3")
	u.old["w1"] = true
	u.M.Workers["w3"].Info.Arch = "riscv64"
	u.begin(apiv1.UpgradeRequest{})
	for n := range upgrades.MaxUpgradeTries - 1 {
		key := u.asked["w0"].Key
		u.says("w0", rpc.TryFailed, "the link is away", true)
		u.look(time.Second)
		if u.asked["w0"].Key == key {
			t.Fatalf("try %d: it is not tried again", n)
		}
	}
	u.says("w0", rpc.TryDone, "", false)
	u.look(time.Second)
	u.look(11 * time.Second)
	u.look(time.Second)
	u.says("w2", rpc.TryRefused, "its operator does not let it", false)
	u.look(time.Second)
	u.look(time.Second)
	u.expect(apiv1.UpgradeDone, "w0 done, w1 skipped, w2 skipped, w3 skipped")
	// The operator lets it, and another try is asked for.
	b := &backend.Backend{Core: u.Core}
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradeResume, apiv1.UpgradeAction{}); err != nil {
		t.Fatal(err)
	}
	u.look(time.Second)
	u.look(time.Second)
	u.says("w2", rpc.TryDone, "", false)
	u.look(time.Second)
	u.look(11 * time.Second)
	u.expect(apiv1.UpgradeDone, "w0 done, w1 skipped, w2 done, w3 skipped")
}

// An orchestrator that is started again in the middle goes on where it was, and one that was
// paused stays so.
func TestUpgradeOutlivesItsCluster(t *testing.T) {
	u := newUpgrades(t, "w0", "w1")
	u.begin(apiv1.UpgradeRequest{Soak: api.Duration(time.Minute)})
	key := u.asked["w0"].Key
	b := &backend.Backend{Core: u.Core}
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradePause,
		apiv1.UpgradeAction{Reason: "lunch"}); err != nil {
		t.Fatal(err)
	}
	u.Keeper.Wrote(errors.New("lost")) //nolint:errcheck // as after a restart: all is read again
	u.look(time.Second)
	u.expect(apiv1.UpgradePaused, "w0 upgrading, w1 waiting")
	if u.asked["w0"].Key != key {
		t.Error("it was begun again")
	}
	u.says("w0", rpc.TryDone, "", false)
	u.look(time.Second)
	u.look(2 * time.Minute)
	u.expect(apiv1.UpgradePaused, "w0 done, w1 waiting")
	if v := upgrades.View(u.M, u.now); !strings.Contains(v.Why, "lunch") {
		t.Errorf("it says %q", v.Why)
	}
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradePause, apiv1.UpgradeAction{}); err == nil {
		t.Error("what is paused is paused")
	}
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradeResume, apiv1.UpgradeAction{}); err != nil {
		t.Fatal(err)
	}
	u.look(time.Second)
	u.expect(apiv1.UpgradeRolling, "w0 done, w1 upgrading")
	if _, err := b.ChangeUpgrade(context.Background(), apiv1.UpgradeUndo, apiv1.UpgradeAction{}); err == nil {
		t.Error("what is under way is undone")
	}
	// What cannot be stored has not happened.
	u.store.FailWrites(errors.New("disk full"))
	u.says("w1", rpc.TryDone, "", false)
	u.now = u.now.Add(time.Second)
	_, _ = upgrader.LookAtUpgrade(context.Background(), u.Core, u.now)
	if r := upgrades.WorkerTable.Rows(u.M.DB)["w1"]; r.Phase != wave.Begun {
		t.Errorf("it is %s, and that is stored nowhere", r.Phase)
	}
	u.store.FailWrites(nil)
	u.look(time.Second)
	u.expect(apiv1.UpgradeRolling, "w0 done, w1 watched")
}

func TestUpgradeRequests(t *testing.T) {
	sound := func() apiv1.UpgradeRequest {
		return apiv1.UpgradeRequest{Programs: []wire.Program{{OS: "linux", Arch: runtime.GOARCH,
			SHA256: strings.Repeat("ab", 32), Size: 10}}}
	}
	q := sound()
	if err := q.Fill(); err != nil || q.Wave != 1 || q.Soak.Std() != apiv1.DefaultSoak {
		t.Errorf("%+v, %v", q, err)
	}
	for name, spoil := range map[string]func(q *apiv1.UpgradeRequest){
		"no program":       func(q *apiv1.UpgradeRequest) { q.Programs = nil },
		"two for the same": func(q *apiv1.UpgradeRequest) { q.Programs = append(q.Programs, q.Programs[0]) },
		"a path":           func(q *apiv1.UpgradeRequest) { q.Programs[0].SHA256 = "../../../etc/passwd" },
		"upper case":       func(q *apiv1.UpgradeRequest) { q.Programs[0].SHA256 = strings.Repeat("AB", 32) },
		"nothing in it":    func(q *apiv1.UpgradeRequest) { q.Programs[0].Size = 0 },
		"too much":         func(q *apiv1.UpgradeRequest) { q.Programs[0].Size = wire.MaxProgramBytes + 1 },
		"half a signature": func(q *apiv1.UpgradeRequest) { q.Programs[0].Signature = []byte("x") },
		"a wave of all":    func(q *apiv1.UpgradeRequest) { q.Wave = apiv1.MaxWave + 1 },
		"a short timeout":  func(q *apiv1.UpgradeRequest) { q.WorkerTimeout = 1 },
		"a long soak":      func(q *apiv1.UpgradeRequest) { q.Soak = api.Duration(apiv1.MaxSoak + 1) },
		"many names":       func(q *apiv1.UpgradeRequest) { q.Workers = make([]string, 10_001) },
	} {
		q := sound()
		if spoil(&q); q.Fill() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
