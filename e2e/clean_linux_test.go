package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A worker whose folder was removed while it ran is found by the doctor and removed by
// verge worker clean, and one whose engine was killed is ended by verge worker stop. The
// worker beside them goes on.
func TestAWorkerIsCleanedUp(t *testing.T) {
	w := newWorld(t, 0, "edge")
	w.cluster["edge"].answers()
	removed := w.addWorker("edge", "removed", "--network", "auto") // which has what there is to be left
	killed := w.addWorker("edge", "killed")
	stays := w.addWorker("edge", "stays")
	w.allReady()
	w.root.apply(`application: web
services:
  main: {command: [testprogram], replicas: 3, ports: [{name: http}]}
`)
	for _, x := range []*worker{removed, killed, stays} {
		if n := len(instancesIn(x.dir)); n != 1 {
			t.Fatalf("%s has %d instances", x.name, n)
		}
	}
	alive := processesOf(stays.dir)

	if err := os.RemoveAll(removed.dir); err == nil {
		t.Log("nothing was mounted in its folder")
	}
	w.endDaemon(t, removed.daemon)
	r := verge(t, "", "doctor")
	if !strings.Contains(r.out, removed.dir+", which was removed, has left") || !strings.Contains(r.out, "verge worker clean") {
		t.Errorf("the doctor says nothing of it:\n%s%s", r.out, r.err)
	}
	r = verge(t, "", "worker", "clean", "--data-dir", removed.dir, "--dry-run")
	if r.code != 0 || !strings.Contains(r.out, "web.main.") || len(instancesIn(removed.dir)) != 1 {
		t.Errorf("--dry-run: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	r = verge(t, "", "worker", "clean", "--data-dir", removed.dir)
	if r.code != 0 {
		t.Fatalf("verge worker clean: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if left := processesOf(removed.dir); len(left) > 0 {
		t.Errorf("processes are left: %s", describe(left))
	}
	if groups, parents := groupsOf(removed.dir); len(groups)+len(parents) > 0 {
		t.Errorf("control groups are left: %v %v", groups, parents)
	}
	if out, err := exec.Command("nft", "list", "tables").Output(); err == nil && strings.Contains(string(out), "verge-") {
		t.Errorf("tables are left: %s", out)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), " "+removed.dir+"/") {
		t.Errorf("mounts are left (%v)", err)
	}
	if err := os.RemoveAll(removed.dir); err != nil {
		t.Errorf("its folder cannot be removed: %v", err)
	}

	w.endDaemon(t, killed.daemon)
	for _, p := range processesOf(killed.dir) {
		if p.env["VERGE_INSTANCE"] == "" {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // its engine
		}
	}
	eventually(t, 10*time.Second, "its engine has ended", func() error {
		if n := len(processesOf(killed.dir)); n != len(instancesIn(killed.dir)) {
			return errors.New(describe(processesOf(killed.dir)))
		}
		return nil
	})
	if n := len(instancesIn(killed.dir)); n == 0 {
		t.Fatal("its instances ended with its engine")
	}
	if r := verge(t, "", "worker", "stop", "--data-dir", killed.dir); r.code != 0 {
		t.Errorf("verge worker stop: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if left := processesOf(killed.dir); len(left) > 0 {
		t.Errorf("verge worker stop has left: %s", describe(left))
	}

	if now := processesOf(stays.dir); len(now) < len(alive) {
		t.Errorf("of the worker that runs there is %s, and was %s", describe(now), describe(alive))
	}
}
