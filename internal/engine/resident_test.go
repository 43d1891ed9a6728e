package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// residentDriver keeps its tasks in the process that started them.
type residentDriver struct {
	*fakeDriver
	fetches int
}

func (d *residentDriver) Name() string { return api.Wasm }
func (*residentDriver) Resident()      {}

func (*residentDriver) Adopt(context.Context, runtime.Spec, runtime.Handle) (runtime.Task, error) {
	return nil, runtime.ErrGone
}

func (d *residentDriver) Fetch(context.Context, runtime.Spec, func(string)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fetches++
	return nil
}

func (d *residentDriver) Stocked(runtime.Spec) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fetches > 0
}

// A function that a request wakes is ready before anything of it is on disk, and an
// engine that is killed then leaves one that sleeps; later its record is there.
func TestAWokenFunctionWritesLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		d := &residentDriver{fakeDriver: r.driver}
		r.more = map[string]runtime.Driver{api.Wasm: d}
		r.start()
		defer func() { r.stop() }()
		o := sleeper(0, 1, 100, false)
		o.Spec.Runtime, o.Spec.Module = api.Wasm, "/srv/fn.wasm"
		r.apply(o)
		r.mustSleep(web0)
		before, err := r.e.State(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.e.Wake(web0)
		synctest.Wait() // no time passes
		r.mustServe(web0)
		if _, err := os.Stat(filepath.Dir(r.recordPath(web0))); !os.IsNotExist(err) {
			t.Errorf("its directory when it is ready: %v", err)
		}
		if now, err := r.e.State(t.Context(), 0, 0); err != nil || now.Seq != before.Seq+1 {
			t.Errorf("%d changes were shown for one start, %v", now.Seq-before.Seq, err)
		}
		r.stop()
		r.one(web0).end(0) // its process ended with it
		r.start()
		synctest.Wait()
		r.mustSleep(web0)

		r.e.Wake(web0)
		after(supervise.RetryAfter + time.Millisecond)
		rec, err := state.ReadRecord(filepath.Dir(r.recordPath(web0)), web0)
		if err != nil || rec.Handle == nil || rec.Phase != wire.PhaseRunning || rec.Starts != 1 {
			t.Fatalf("a while later: %+v, %v", rec, err)
		}
		r.used(web0)
		after(2 * time.Minute)
		r.mustSleep(web0)
		if rec, err = state.ReadRecord(filepath.Dir(r.recordPath(web0)), web0); err != nil || rec.Handle != nil ||
			rec.Phase != wire.PhasePending {
			t.Errorf("asleep again: %+v, %v", rec, err)
		}
		if d.fetches != 1 {
			t.Errorf("what it needs was fetched %d times", d.fetches)
		}
		r.stop()
		r.start()
		after(time.Second)
		r.mustSleep(web0)
		if s := r.status(web0); s.Restarts != 0 || s.LastExit == nil || s.LastExit.Unknown {
			t.Errorf("after another engine: %+v", s)
		}
	})
}
