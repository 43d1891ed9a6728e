package engine

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

func (r *rig) recordPath(id string) string {
	return filepath.Join(r.dir, state.InstancesDir, id, state.RecordName)
}

// edit changes the record of an instance on disk.
func (r *rig) edit(id string, change func(*state.Record)) {
	r.t.Helper()
	rec, err := state.ReadRecord(filepath.Dir(r.recordPath(id)), id)
	if err != nil {
		r.t.Fatal(err)
	}
	change(&rec)
	if err := state.RecordKind.Write(r.recordPath(id), &rec); err != nil {
		r.t.Fatal(err)
	}
}

func TestSuccessorAdopts(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		r.one(web0).end(7)
		after(time.Second)
		task, was := r.one(web0), r.status(web0)
		r.stop()
		if len(r.driver.live(web0)) != 1 {
			t.Fatal("the end of the engine ended its instance")
		}
		r.start()
		after(time.Second)
		s := r.status(web0)
		if s.Phase != wire.PhaseRunning || !s.Ready || s.PID != task.handle.PID || s.Restarts != 1 ||
			s.LastExit == nil || s.LastExit.Code != 7 || s.Ports["http"] != was.Ports["http"] ||
			!s.Started.Equal(was.Started) {
			t.Errorf("got %+v\nwas %+v", s, was)
		}
		if r.driver.starts(web0) != 2 || len(r.orphans.all()) != 0 {
			t.Errorf("%d starts, swept %v", r.driver.starts(web0), r.orphans.all())
		}
		// It is ours as any other.
		task.end(9)
		after(time.Second)
		if s := r.status(web0); s.LastExit.Code != 9 || s.Restarts != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestExitNobodySaw(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		r.stop()
		r.one(web0).end(7)
		r.start()
		s := r.status(web0)
		if s.LastExit == nil || !s.LastExit.Unknown || s.LastExit.Code != -1 || s.Phase != wire.PhasePending {
			t.Errorf("%+v", s)
		}
		if !r.orphans.was(web0) {
			t.Error("children that may have outlived it were not looked for")
		}
		after(time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 1 {
			t.Errorf("%+v", s)
		}
		rec, err := state.ReadRecord(filepath.Dir(r.recordPath(web0)), web0)
		if err != nil || rec.Failures != 1 {
			t.Errorf("failures in a row: %d, %v; want 1", rec.Failures, err)
		}
	})
}

func TestPowerCut(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		once := order(1, 1, 100)
		once.Spec.Restart.Policy = "never"
		orders := engineapi.EngineOrders{V: wire.Version, Orders: []wire.Order{order(0, 1, 100), once},
			Routes: []wire.Route{{V: wire.Version, App: "shop", Service: "web"}}}
		if err := r.e.Apply(context.Background(), orders); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 4 {
			r.one(web0).end(1)
			after(3 * time.Second)
		}
		r.stop()
		for _, task := range append(r.driver.live(web0), r.driver.live("shop.web.1")...) {
			task.end(1)
		}
		r.boot, r.driver.boot, r.router.routes = "boot-2", "boot-2", nil
		r.start()
		// At once: nothing waits, and nothing was the instance's fault.
		s := r.status(web0)
		if s.Phase != wire.PhaseRunning || s.Restarts != 5 || s.LastExit == nil || !s.LastExit.Unknown {
			t.Errorf("%+v", s)
		}
		if rec, err := state.ReadRecord(filepath.Dir(r.recordPath(web0)), web0); err != nil || rec.Failures != 0 {
			t.Errorf("failures in a row: %d, %v; want 0", rec.Failures, err)
		}
		if _, routes := r.router.seen(); routes != 1 {
			t.Error("routes were not taken from the file")
		}
		if s := r.status("shop.web.1"); s.Phase != wire.PhaseExited {
			t.Errorf("what may never restart was started again: %+v", s)
		}
	})
}

func TestPowerCutEndsAWait(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		for range 4 {
			r.one(web0).end(1)
			after(time.Second)
		}
		r.one(web0).end(1)
		synctest.Wait()
		// The same boot waits on, another one does not.
		r.stop()
		r.start()
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Why == "" {
			t.Errorf("%+v", s)
		}
		r.stop()
		r.boot, r.driver.boot = "boot-2", "boot-2"
		r.start()
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("%+v", s)
		}
	})
}

func TestStartThatWasNotNoted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		r.stop()
		// As if the engine had died between the start and its note.
		r.edit(web0, func(rec *state.Record) { rec.Starting, rec.Handle = true, nil })
		r.start()
		if !r.orphans.was(web0) {
			t.Error("its process was not looked for")
		}
		if _, groups := r.driver.sweptGroups(); !slices.Equal(groups, []string{"/cg/1"}) {
			t.Errorf("control groups swept: %v", groups)
		}
		if n := r.driver.starts(web0); n != 2 {
			t.Errorf("%d starts", n)
		}
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("%+v", s)
		}
	})
}

func TestOrderGoneWhileAway(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100), order(1, 1, 100))
		task := r.one("shop.web.1")
		r.stop()
		o := engineapi.EngineOrders{V: wire.Version, Orders: []wire.Order{order(0, 1, 100)}}
		if err := state.RecordKind.Write(filepath.Join(r.dir, engineapi.EngineOrdersFile), &o); err != nil {
			t.Fatal(err)
		}
		r.start()
		if sig, _, _ := task.seen(); len(sig) != 1 {
			t.Errorf("not stopped in its orderly way: %v", sig)
		}
		if _, err := os.Stat(r.recordPath("shop.web.1")); !os.IsNotExist(err) {
			t.Errorf("not forgotten: %v", err)
		}
		if s := r.status(web0); s.Phase != wire.PhaseRunning || r.driver.starts(web0) != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDamagedOrdersStopNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100), order(1, 1, 100))
		r.stop()
		sweeps, _ := r.driver.sweptGroups()
		path := filepath.Join(r.dir, engineapi.EngineOrdersFile)
		if err := os.WriteFile(path, []byte(`{"v":1,"orders":[{"id`), 0o600); err != nil {
			t.Fatal(err)
		}
		// Something without any record, which nobody may touch before orders come.
		r.orphans.marked = map[string][]int{"shop.web.5": {4711}, "../../etc": {4712}}
		r.start()
		after(time.Second)
		for _, id := range []string{web0, "shop.web.1"} {
			if s := r.status(id); s.Phase != wire.PhaseRunning || !s.Ready || r.driver.starts(id) != 1 {
				t.Errorf("%s: %+v", id, s)
			}
		}
		if p := r.problems(); !strings.Contains(p, "orders.json") || !strings.Contains(p, "orders.json.corrupt-1") {
			t.Errorf("problems: %q", p)
		}
		if s, _ := r.e.State(context.Background(), 0, 0); !s.Have.IsZero() {
			t.Errorf("claims to have %v", s.Have)
		}
		if _, err := os.Stat(path + ".corrupt-1"); err != nil {
			t.Error(err)
		}
		if len(r.orphans.all()) != 0 {
			t.Errorf("swept %v without orders", r.orphans.all())
		}
		// A group that no record names may be that one's.
		if now, _ := r.driver.sweptGroups(); now != sweeps {
			t.Error("control groups were swept")
		}
		// What ends is healed from its record.
		r.one(web0).end(1)
		after(time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 1 {
			t.Errorf("%+v", s)
		}
		// Then orders come.
		r.apply(order(1, 1, 100))
		if len(r.driver.live(web0)) != 0 || !r.orphans.was("shop.web.5") || r.orphans.was("../../etc") {
			t.Errorf("live %d, swept %v", len(r.driver.live(web0)), r.orphans.all())
		}
		if s := r.status("shop.web.1"); r.driver.starts("shop.web.1") != 1 || s.Phase != wire.PhaseRunning {
			t.Errorf("%+v", s)
		}
	})
}

// An engine that does not know what a newer one has noted of an instance would start it a
// second time. It starts nothing, says why, and leaves all as it is.
func TestNewerFilesAreLeft(t *testing.T) {
	for _, name := range []string{engineapi.EngineOrdersFile,
		filepath.Join(state.InstancesDir, web0, state.RecordName)} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(order(0, 1, 100), order(1, 1, 100))
				r.stop()
				path := filepath.Join(r.dir, name)
				was, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				newer := strings.Replace(string(was), `"v":1,`, `"v":2,`, 1)
				if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
					t.Fatal(err)
				}
				e, err := r.open()
				if err == nil {
					err = e.Run(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), path+" is of form 2") {
					t.Errorf("%s: %v", name, err)
				}
				if now, err := os.ReadFile(path); err != nil || string(now) != newer {
					t.Errorf("it was %q and is %q, %v", newer, now, err)
				}
				if r.driver.starts(web0) != 1 || len(r.driver.live(web0)) != 1 || len(r.orphans.all()) != 0 {
					t.Errorf("%d starts, %d live, swept %v", r.driver.starts(web0), len(r.driver.live(web0)),
						r.orphans.all())
				}
				// The newer program is back.
				if err := os.WriteFile(path, was, 0o600); err != nil {
					t.Fatal(err)
				}
				r.start()
				if s := r.status(web0); s.Phase != wire.PhaseRunning || r.driver.starts(web0) != 1 {
					t.Errorf("%+v, %d starts", s, r.driver.starts(web0))
				}
			})
		})
	}
}

func TestDamagedRecordStartsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100), order(1, 1, 100))
		r.stop()
		wrong, err := json.Marshal(state.Record{V: wire.Version, Order: order(4, 1, 1)})
		if err != nil {
			t.Fatal(err)
		}
		for id, data := range map[string][]byte{web0: []byte("\x00\x00\x00"), "shop.web.1": wrong} {
			if err := os.WriteFile(r.recordPath(id), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		for _, id := range []string{web0, "shop.web.1"} {
			if !r.orphans.was(id) || r.driver.starts(id) != 2 || r.status(id).Phase != wire.PhaseRunning {
				t.Errorf("%s: swept %v, %d starts", id, r.orphans.all(), r.driver.starts(id))
			}
			if _, err := os.Stat(r.recordPath(id) + ".corrupt-1"); err != nil {
				t.Error(err)
			}
			if !strings.Contains(r.problems(), id+"/state.json") {
				t.Errorf("problems: %q", r.problems())
			}
		}
	})
}

// An empty record is what a power cut may leave: nothing is wrong then.
func TestEmptyRecordStartsAnew(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		r.stop()
		if err := os.Truncate(r.recordPath(web0), 0); err != nil {
			t.Fatal(err)
		}
		r.start()
		if !r.orphans.was(web0) || r.driver.starts(web0) != 2 || r.status(web0).Phase != wire.PhaseRunning {
			t.Errorf("swept %v, %d starts", r.orphans.all(), r.driver.starts(web0))
		}
		if p := r.problems(); p != "" {
			t.Errorf("problems: %q", p)
		}
	})
}

func TestDiskThatCannotBeWritten(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(order(0, 1, 100))
		// A folder in the record's place fails every write of it, also for root.
		path := r.recordPath(web0)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(path, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		r.one(web0).end(7)
		after(30 * time.Second)
		s := r.status(web0)
		if s.LastExit == nil || s.LastExit.Code != 7 || s.Phase != wire.PhasePending || r.driver.starts(web0) != 1 {
			t.Errorf("%d starts, %+v", r.driver.starts(web0), s)
		}
		if p := r.problems(); !strings.Contains(p, web0) || !strings.Contains(p, "can't be kept") {
			t.Errorf("problems: %q", p)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		after(10 * time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 1 || s.LastExit.Code != 7 {
			t.Errorf("%+v", s)
		}
		if p := r.problems(); p != "" {
			t.Errorf("problems: %q", p)
		}

		// Orders that can't be stored are not acted on.
		orders := filepath.Join(r.dir, engineapi.EngineOrdersFile)
		if err := os.Remove(orders); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(orders, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := r.e.Apply(context.Background(), engineapi.EngineOrders{V: wire.Version}); err == nil {
			t.Error("acknowledged orders that are not on disk")
		}
		synctest.Wait()
		if r.status(web0).Phase != wire.PhaseRunning {
			t.Error("acted on orders that are not on disk")
		}
	})
}

func TestOneEnginePerDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDir(dir); err == nil || !strings.Contains(err.Error(), "another engine works in this directory") {
		t.Errorf("got %v", err)
	}
	lock.release()
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.release()
}

// The first state that a new engine gives is whole: what it has not looked at
// yet must not seem to be gone.
func TestTheFirstStateIsWhole(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var orders []wire.Order
		for n := range 40 {
			orders = append(orders, order(n, 1, 1))
		}
		r.apply(orders...)
		after(time.Second)
		r.stop()
		r.driver.slow(50 * time.Millisecond) // to be adopted
		r.start()
		s, err := r.e.State(t.Context(), 0, 0)
		if err != nil || len(s.Changed) != len(orders) {
			t.Errorf("the first state has %d of %d instances, %v", len(s.Changed), len(orders), err)
		}
	})
}

func TestPeersComeFromTheRoutes(t *testing.T) {
	http := []api.Port{{Name: "http"}}
	o := engineapi.EngineOrders{
		Orders: []wire.Order{{ID: "a.web.0", App: "a"}, {ID: "b.web.0", App: "b"}},
		Routes: []wire.Route{{App: "a", Service: "web", Ports: http}, {App: "a", Service: "store", Ports: http},
			{App: "c", Service: "x", Ports: http}},
	}
	state.FillPeers(&o)
	if p := o.Orders[0].Peers; len(p) != 2 || p["store"] == nil || p["web"] == nil {
		t.Errorf("peers of a are %v", p)
	}
	if p := o.Orders[1].Peers; len(p) != 0 {
		t.Errorf("peers of b are %v", p)
	}
}
