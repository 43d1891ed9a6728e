package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// counterApp counts in a file of its volume.
const counterApp = `application: count
services:
  er:
    command: [sh, -c, "n=$$(cat data/n 2>/dev/null || echo 0); while :; do n=$$((n+1)); echo $$n > data/n.new; mv data/n.new data/n; sleep 0.02; done"]
    volumes: [{path: data, name: data}]
`

const counter = "count.er.0"

// counted is what the volume on a worker says, 0 where there is none.
func (w *world) counted(worker string) int {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.worker[worker].dir, "volumes", "default", counter, "data", "n"))
	if err != nil {
		return 0
	}
	return must[int](w.t)(strconv.Atoi(strings.TrimSpace(string(b))))
}

// TestVolumeMoves takes the volume of a program that counts to another worker and back,
// with everybody killed in the middle. It never counts anything twice or anew.
func TestVolumeMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	edge := w.cluster["edge"]
	w.root.apply(counterApp)
	w.root.holds("count", 20*time.Second)
	counts := func(worker string, from int) {
		t.Helper()
		eventually(t, 30*time.Second, "it counts on "+worker, func() error {
			if n := w.counted(worker); n <= from {
				return fmt.Errorf("it is at %d, before at %d", n, from)
			}
			return nil
		})
	}
	from := edge.instances("count")[counter].Worker
	to := map[string]string{"edge-1": "edge-2", "edge-2": "edge-1"}[from]
	counts(from, 3)
	volume := "edge/" + from + "/default/" + counter + "/data"

	// What it was used by has to be forgotten there first.
	removes := func(volume string) {
		t.Helper()
		eventually(t, 20*time.Second, "volume "+volume+" is removed", func() error {
			if r := verge(t, edge.contextFile(), "volume", "rm", volume); r.code != 0 {
				return errors.New(r.err)
			}
			return nil
		})
	}
	w.run("what cannot be is refused", func(t *testing.T) {
		for want, args := range map[string][]string{
			"it is on worker " + from:          {"volume", "move", volume, "--to", from},
			"there is no such worker":          {"volume", "move", volume, "--to", "nobody"},
			"give one of --to WORKER":          {"volume", "move", volume},
			"no instance uses such a volume":   {"volume", "move", volume + "x", "--to", to},
			"the volume is not being moved":    {"volume", "move", volume, "--cancel"},
			"is not of the form CLUSTER/WORKE": {"volume", "move", "data", "--to", to},
		} {
			if r := verge(t, edge.contextFile(), args...); r.code == 0 || !strings.Contains(r.err, want) {
				t.Errorf("%v: %+v", args, r)
			}
		}
		if r := verge(t, w.root.contextFile(), "volume", "move", volume, "--to", to); r.code == 0 || !strings.Contains(r.err, "moving a volume is done at cluster edge") {
			t.Errorf("by the root: %+v", r)
		}
	})
	w.run("it goes on where it was when it is cancelled", func(t *testing.T) {
		stale := filepath.Join(w.worker[to].dir, "volumes", "default", counter, "data")
		if err := os.MkdirAll(stale, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(stale, "n"), []byte("7"), 0o600); err != nil {
			t.Fatal(err)
		}
		edge.ok("volume", "move", volume, "--to", to, "--no-wait")
		eventually(t, 30*time.Second, "what is in the way is told", func() error {
			if r := verge(t, w.root.contextFile(), "describe", "instance/"+counter); !strings.Contains(r.out, "has another volume of that name already: verge volume rm") {
				return errors.New(r.out)
			}
			return nil
		})
		if r := verge(t, edge.contextFile(), "volume", "move", volume, "--to", to); r.code == 0 || !strings.Contains(r.err, "the volume is busy: its volumes are moved from worker "+from+" to worker "+to) {
			t.Errorf("%+v", r)
		}
		at := w.counted(from)
		edge.ok("volume", "move", volume, "--cancel")
		counts(from, at)
		removes("edge/" + to + "/default/" + counter + "/data")
		w.root.holds("count", 20*time.Second)
	})
	w.run("a snapshot is made and restored", func(t *testing.T) {
		at := w.counted(from)
		object := strings.TrimSpace(edge.ok("volume", "snapshot", volume))
		if !strings.HasPrefix(object, "snapshots/"+counter+"/data/") {
			t.Fatalf("it says %q", object)
		}
		counts(from, at)
		// What is not as it was packed cannot be in its place.
		if text := edge.ok("volume", "snapshot", "ls", counter, "-o", "json"); !strings.Contains(text, `"state": "whole"`) || !strings.Contains(text, object) {
			t.Errorf("the snapshots are %s", text)
		}
		mine := filepath.Join(t.TempDir(), "mine")
		if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := verge(t, edge.contextFile(), "object", "put", object, mine); r.code == 0 || !strings.Contains(r.err, "the object is a snapshot") {
			t.Errorf("it was overwritten: %+v", r)
		}
		edge.ok("object", "put", "snapshots/mine", mine)
		if r := verge(t, edge.contextFile(), "volume", "restore", volume, "--from", "snapshots/mine"); r.code == 0 || !strings.Contains(r.err, "not a snapshot that this cluster has taken") {
			t.Errorf("%+v", r)
		}
		work := filepath.Join(w.worker[from].dir, "volumes", "default", counter, "data")
		for name, text := range map[string]string{"n": "1000000", "later": "x"} {
			if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		edge.ok("volume", "restore", volume, "--from", object)
		counts(from, at)
		if _, err := os.Stat(filepath.Join(work, "later")); err == nil {
			t.Error("what was made after the snapshot is there")
		}
		if n := w.counted(from); n >= 1_000_000 {
			t.Errorf("it is at %d", n)
		}
	})
	w.run("it is moved", func(t *testing.T) {
		at := w.counted(from)
		text := edge.ok("volume", "move", volume, "--to", to)
		if !strings.Contains(text, "volume/edge/"+to+"/default/"+counter+"/data") {
			t.Errorf("it says %q", text)
		}
		left := w.counted(from)
		counts(to, left)
		if left < at {
			t.Errorf("it was at %d, and what was left is at %d", at, left)
		}
		if i := edge.instances("count")[counter]; i.Worker != to || i.Pinned != to {
			t.Errorf("%+v", i)
		}
		if text := edge.ok("volume", "ls", "--unused", "-o", "name"); !strings.Contains(text, volume) {
			t.Errorf("the former copy is not among the unused: %s", text)
		}
		removes(volume)
		w.root.holds("count", 20*time.Second)
	})
	w.run("it is moved back while all are killed", func(t *testing.T) {
		// Something that takes its time.
		ballast := filepath.Join(w.worker[to].dir, "volumes", "default", counter, "data", "ballast")
		if err := os.WriteFile(ballast, make([]byte, 64<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		at := w.counted(to)
		edge.ok("volume", "move", "edge/"+to+"/default/"+counter+"/data", "--to", from, "--no-wait")
		for _, name := range []string{to, from} {
			for _, p := range processesOf(w.worker[name].dir) {
				if slices.Contains(p.args, "engine") {
					_ = syscall.Kill(p.pid, syscall.SIGKILL) // its agent starts another
				}
			}
		}
		edge.kill()
		edge.start()
		edge.answers()
		eventually(t, 60*time.Second, "it runs there", func() error {
			i := edge.instances("count")[counter]
			if i.Worker != from || i.State != wire.Running {
				return fmt.Errorf("it is %s on %s: %s", i.State, i.Worker, i.Reason)
			}
			return nil
		})
		left := w.counted(to)
		counts(from, left)
		if left < at {
			t.Errorf("it was at %d, and what was left is at %d", at, left)
		}
		if st, err := os.Stat(filepath.Join(w.worker[from].dir, "volumes", "default", counter, "data", "ballast")); err != nil || st.Size() != 64<<20 {
			t.Errorf("the ballast: %v", err)
		}
	})
	w.run("it begins anew where its worker is gone", func(t *testing.T) {
		lost := "edge/" + from + "/default/" + counter + "/data"
		removes("edge/" + to + "/default/" + counter + "/data") // the copy that it was moved from
		forget := func(args ...string) result {
			return verge(t, edge.contextFile(), append([]string{"volume", "forget", lost}, args...)...)
		}
		if r := forget("--confirm", counter); r.code == 0 || !strings.Contains(r.err, "worker "+from+", which has it, is there") {
			t.Errorf("%+v", r)
		}
		w.worker[from].kill()
		killAll(t, w.worker[from].dir)
		eventually(t, 30*time.Second, "its worker is away", func() error {
			if r := forget(); r.code == 0 || !strings.Contains(r.err, "--confirm "+counter) {
				return fmt.Errorf("without a confirmation: %+v", r)
			}
			if r := forget("--confirm", counter); r.code != 0 {
				return errors.New(r.err)
			}
			return nil
		})
		had := w.counted(from)
		counts(to, 0)
		w.worker[from].start()
		eventually(t, 60*time.Second, "what it had is told", func() error {
			if text := edge.ok("volume", "ls"); !strings.Contains(text, "no: they were given up") {
				return errors.New(text)
			}
			return nil
		})
		// Until its worker hears of the cluster it goes on there, as after any power cut.
		if i := edge.instances("count")[counter]; i.Worker != to || w.counted(from) < had {
			t.Errorf("it is on %s, and what is on %s is at %d, before at %d", i.Worker, from, w.counted(from), had)
		}
		removes(lost)
	})
}
