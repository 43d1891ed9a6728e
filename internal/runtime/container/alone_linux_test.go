package container

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
)

// BenchmarkWithoutShim is the whole life of a container, created, started, killed and
// removed: by the driver under a shim that is there already, by containerd's client
// under one of its own, and by runc with the driver's configuration and nothing else, in
// turns in one run. Processor time is that of all who take part; of runc alone that of
// its commands and of the container's first process. What DESIGN.md says of life
// without a shim is from here.
func BenchmarkWithoutShim(b *testing.B) {
	d, c := bench(b, containertest.Config{})
	first, err := d.Start(b.Context(), specOf(b, testImage, "sleep", "100000")) // its shim stays, its files are shared
	if err != nil {
		b.Fatal(err)
	}
	defer end(b, first)
	bundle := bundleOf(b, first.(*task))
	var took times
	used := map[string]time.Duration{}
	turn := 0
	for b.Loop() {
		turn++
		began := time.Now()
		u, running := runcAlone(b, bundle, fmt.Sprintf("alone-%d", turn), turn == 1)
		used["runc"] += u
		took.add("runc", time.Since(began))
		took.add("runc-until-running", running.Sub(began))

		before := spent(b, c)
		s := specOf(b, testImage, "sleep", "100000")
		s.ID = fmt.Sprintf("%s%d", s.ID, turn) // of the same application
		began = time.Now()
		t, err := d.Start(b.Context(), s)
		if err != nil {
			b.Fatal(err)
		}
		took.add("shim-until-running", time.Since(began))
		end(b, t)
		took.add("shim", time.Since(began))
		used["shim"] += spent(b, c) - before
	}
	shims, err := c.Shims()
	if err != nil || len(shims) != 1 {
		b.Fatal(shims, err)
	}
	for _, who := range took.names {
		b.ReportMetric(took.median(who), who+":wall-ms")
		if used[who] > 0 {
			b.ReportMetric(used[who].Seconds()*1000/float64(turn), who+":cpu-ms")
		}
	}
	b.ReportMetric(took.median("shim-until-running")/took.median("runc-until-running"), "until-running:shim/runc")
	b.ReportMetric(took.median("shim")/took.median("runc"), "wall:shim/runc")
	b.ReportMetric(used["shim"].Seconds()/used["runc"].Seconds(), "cpu:shim/runc")
	b.ReportMetric(pss(b, shims[0]), "MB-PSS/shim-of-1")
}

// bundleOf is the folder from which runc has made the container of a task.
func bundleOf(b *testing.B, t *task) string {
	b.Helper()
	var state struct {
		Config struct{ Labels []string }
	}
	if err := readConfig(filepath.Join(runcRoot, t.handle.Container, "state.json"), &state); err != nil {
		b.Fatal(err)
	}
	for _, l := range state.Config.Labels {
		if len(l) > 7 && l[:7] == "bundle=" {
			return l[7:]
		}
	}
	b.Fatal("runc does not say from what it made the container")
	return ""
}

// runcAlone is the life of a container by runc, from the configuration and the files of
// another, the processor time that it took, and when it ran. Where tell is set it says who the parent
// of the container is when runc's commands have ended.
func runcAlone(b *testing.B, bundle, id string, tell bool) (used time.Duration, running time.Time) {
	b.Helper()
	var spec map[string]any
	if err := readConfig(filepath.Join(bundle, "config.json"), &spec); err != nil {
		b.Fatal(err)
	}
	spec["root"].(map[string]any)["path"] = filepath.Join(bundle, "rootfs")
	delete(spec["linux"].(map[string]any), "cgroupsPath") // one of its own
	text, err := json.Marshal(spec)
	if err != nil {
		b.Fatal(err)
	}
	own := b.TempDir()
	if err := os.WriteFile(filepath.Join(own, "config.json"), text, 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(own, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	runc := func(args ...string) {
		b.Helper()
		cmd := exec.Command("runc", append([]string{"--root", filepath.Join(own, "state")}, args...)...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			said, _ := os.ReadFile(log.Name())
			b.Fatalf("runc %s: %v: %s", args[0], err, said)
		}
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	pidFile := filepath.Join(own, "pid")
	runc("create", "--bundle", own, "--pid-file", pidFile, id)
	runc("start", id)
	running = time.Now()
	digits, err := os.ReadFile(pidFile) //nolint:gosec // of runc
	if err != nil {
		b.Fatal(err)
	}
	pid, err := strconv.Atoi(string(digits))
	if err != nil {
		b.Fatal(err)
	}
	used += onCPU(b, pid)
	if tell {
		b.Logf("the parent of the container is process %d, which is neither runc nor this one, %d", parentOf(pid), os.Getpid())
	}
	p, err := pidfd.Find(pid, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	// Not delete --force, which looks every 100 ms whether it has ended.
	runc("kill", id, "KILL")
	if err := p.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	runc("delete", id)
	return used, running
}

// onCPU is the processor time of a process.
func onCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		b.Fatal(err)
	}
	var ns int64
	if _, err := fmt.Sscan(string(text), &ns); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ns)
}
