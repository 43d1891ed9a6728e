package cluster

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/acme"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/consult"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// Every kind of record, unreadable in turn: the cluster starts and says so, and all else
// works; or it decides nothing and what is stored stays; or it does not start, and says
// why.
func TestRecordsThatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	full := bustest.NewMemStore()
	c := clustertest.NewCore(t, full)
	w := state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1", Runtimes: []string{"process"}}}
	op, err := records.Op(state.KeyWorker+"w1", &w)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Commit(ctx, op); err != nil {
		t.Fatal(err)
	}
	if err := uplink.FromRoot(c).Take(ctx, true, []wire.Change{clustertest.ShareChange(t, 2)}, wire.Rev{Inc: "root", N: 7},
		nil); err != nil {
		t.Fatal(err)
	}
	if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	good, err := full.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		state.KeyHave, state.KeyShare + "app.web", state.KeyFar + "far.api", localedit.Key + "app.web",
		localedit.KeyConflict + "1", localedit.KeyAgain + "app.web", localedit.KeyCount,
		state.KeyInstance + "app.web.0", state.KeyOrder + "w1.app.web.0", state.KeyRoute + "app.web",
		state.KeyRoute + "gone.web", state.KeyName + "app.web", state.KeyUp + "app.web.0",
		state.KeyUp + "gone.web.0",
		localedit.KeyUpLocal + "app.web", localedit.KeyUpConflict + "1", rollouts.KeyUp + "app.web",
		jobs.KeyUp + "app.web", state.KeyCounters + "app",
		state.KeyWorker + "w1", state.KeyGone + "aa", state.KeyFarGone + "edge.aa", netlease.KeyBlocks + "net",
		netlease.KeyLease + "w1", netlease.KeyNet + "w1" + netlease.Of, netlease.KeyNumber + "app",
		netlease.KeyLeft,
		advisor.KeyMember + "p.aa", profile.Key + "app.web", rollouts.Key + "app.web", jobs.Key + "app.web",
		autoscale.Key + "app.web", volumes.KeySnapshot + "default/a",
		volumes.KeyLeft + "w1.app.web.0", acme.Key + "aa", upgrades.Key + upgrades.Name, upgrades.KeyWorker + "w1",
		secrets.Key + "default.s", secrets.KeySealed + "w1.default.s", backup.MarkKey, backup.SettledKey,
	} {
		for how, bad := range map[string]string{"damaged": `{"v":`, "newer": `{"v":2,"of":"another form"}`} {
			t.Run(how+" "+key, func(t *testing.T) {
				if how == "newer" && (key == localedit.KeyCount || key == state.KeyHave) {
					t.Skip("it has no form: a number, and a revision")
				}
				store := bustest.NewMemStore()
				for _, e := range good {
					if _, err := store.Put(ctx, e.Key, e.Value); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := store.Put(ctx, key, []byte(bad)); err != nil {
					t.Fatal(err)
				}
				unread(t, store, key, bad, how)
			})
		}
	}
}

// insecure are those on which security hangs although the cluster goes on without them.
var insecure = map[string]bool{advisor.KeyMember + "p.aa": true, volumes.KeyLeft + "w1.app.web.0": true}

func unread(t *testing.T, store *bustest.MemStore, key, bad, how string) {
	t.Helper()
	ctx := t.Context()
	hub := bustest.NewMem()
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	c, err := clustertest.Init(ctx, &core.Core{
		ClusterName: "edge", Logger: slog.New(slog.DiscardHandler),
		EventRing:   obs.NewEvents(time.Now(), 0, "cluster/edge"),
		RecordStore: store,
		Local:       hub.Conn("local", all), Up: hub.Conn("up", all),
	}, true, time.Now())
	fate := state.Schema.Fate(key)
	entries, lerr := store.List(ctx, "")
	if lost := Lost(entries); lerr != nil || len(lost) != 1 || lost[0].Key != key || lost[0].Fate != fate ||
		lost[0].Kind.Prefix == "" || lost[0].Kind.Security != (fate == records.Stops || insecure[key]) {
		t.Errorf("an operator sees %+v, %v", lost, lerr)
	}
	remedy := map[string]string{"damaged": "verge restore", "newer": "start the newer program again"}[how]
	if fate == records.Stops {
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("it starts, or does not say why: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { consult.StopAsking(c); c.Local.Close(); c.Up.Close() }()
	rev := store.Rev()
	if _, err := controller.Pass(ctx, c, time.Now(), true); err != nil {
		t.Fatal(err)
	}
	err = uplink.FromRoot(c).Take(ctx, false,
		[]wire.Change{{Key: "share.other.web",
			Value: []byte(strings.ReplaceAll(string(clustertest.ShareChange(t, 1).Value), `"app":"app"`, `"app":"other"`))}},
		wire.Rev{Inc: "root", N: 8}, nil)
	if _, perr := controller.Pass(ctx, c, time.Now(), true); perr != nil {
		t.Fatal(perr)
	}
	now, gerr := store.Get(ctx, key)
	if gerr != nil && !errors.Is(gerr, bus.ErrNotFound) {
		t.Fatal(gerr)
	}
	_, works := c.M.Insts["other.web.0"]
	switch fate {
	case records.Holds:
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "records-unreadable" || works || store.Rev() != rev {
			t.Errorf("it decides: %v, revision %d and was %d", err, store.Rev(), rev)
		}
	case records.Aside:
		if err != nil || !works || string(now.Value) != bad {
			t.Errorf("%v, the other application runs: %v, and the record is %q", err, works, now.Value)
		}
	case records.Again:
		// What is counted is written with the next that is; a worker that has no addresses
		// is told none.
		later := strings.HasPrefix(key, state.KeyCounters) || strings.HasPrefix(key, netlease.KeyNet)
		if err != nil || !works || string(now.Value) == bad && !later {
			t.Errorf("%v, the other application runs: %v, and the record is %q", err, works, now.Value)
		}
	}
	s, err := (&backend.Backend{Core: c}).Status(access.With(ctx, access.Who{Admin: true}))
	said := strings.Join(s.Problems, "\n")
	if err != nil || !strings.Contains(said, "stored record "+key+" cannot be read") || fate != records.Again &&
		!strings.Contains(said, remedy) {
		t.Errorf("%v; the status says:\n%s", err, said)
	}
}
