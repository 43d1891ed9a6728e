package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// devRun is a running verge dev.
type devRun struct {
	t        *testing.T
	cmd      *exec.Cmd
	tmp      string // TMPDIR of the process
	dir      string // of its data, as it says
	ready    string // its first line
	greeting string // all lines
	errors   *os.File
}

// startDev starts verge dev and waits for its lines.
func startDev(t *testing.T, tmp, gateway string, args ...string) *devRun {
	t.Helper()
	d := &devRun{t: t, tmp: tmp, errors: must[*os.File](t)(os.CreateTemp(tmp, "stderr"))}
	d.cmd = exec.Command(programs.verge, append([]string{"dev", "--api", freeAddr(t), "--gateway", gateway}, args...)...)
	d.cmd.Env = append(environment(), "TMPDIR="+tmp)
	d.cmd.Stderr = d.errors
	out := must[interface{ Read([]byte) (int, error) }](t)(d.cmd.StdoutPipe())
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if d.ready == "" {
			d.ready = lines.Text()
		}
		d.greeting += lines.Text() + "\n"
		if path, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), "export VERGE_CONTEXT="); ok {
			d.dir = filepath.Dir(path)
		}
		if strings.Contains(lines.Text(), "verge apply") {
			return d
		}
	}
	t.Fatalf("verge dev ended: %v\n%s", d.cmd.Wait(), d.said())
	return nil
}

func (d *devRun) said() string {
	b, _ := os.ReadFile(d.errors.Name()) // for people only
	return string(b)
}

// interrupt is Ctrl-C; verge dev has ended when it returns.
func (d *devRun) interrupt() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	begin := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- d.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			d.t.Errorf("verge dev ended with %v\n%s", err, d.said())
		}
		d.t.Logf("ended %s after the interrupt", time.Since(begin).Round(time.Millisecond))
	case <-time.After(30 * time.Second):
		_ = d.cmd.Process.Kill() // the test has failed
		d.t.Fatalf("verge dev does not end after an interrupt\n%s", d.said())
	}
}

// devDir makes a temporary directory for verge dev and cleans up after it.
func devDir(t *testing.T) string {
	t.Helper()
	dir := newDir(t)
	t.Cleanup(func() {
		killAll(t, dir)
		workers, _ := filepath.Glob(filepath.Join(dir, "*", "workers", "*"))
		for _, w := range workers {
			removeGroups(t, w)
		}
	})
	return dir
}

var readyLine = regexp.MustCompile(`^ready in ([0-9.]+m?s)\b`)

// TestDevTemporary uses verge dev as the README says, and looks for what it
// leaves.
func TestDevTemporary(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	tmp, gateway := devDir(t), freeAddr(t)
	d := startDev(t, tmp, gateway)
	m := readyLine.FindStringSubmatch(d.ready)
	if m == nil {
		t.Fatalf("the first line is %q", d.ready)
	}
	took := must[time.Duration](t)(time.ParseDuration(m[1]))
	t.Logf("ready in %s", took)
	if took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	context := filepath.Join(d.dir, "context.yaml")
	app := filepath.Join(tmp, "app.yaml")
	if err := os.WriteFile(app, []byte(plain("demo", "1", 3, 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := verge(t, context, "apply", app)
	if r.code != 0 {
		t.Fatalf("apply: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	wantWords(t, "apply", r.err, "Host: demo.test", gateway)
	wantEqual(t, "who answers", must[who](t)(whoami(gateway, "demo.test", "/whoami")).Mark, "1")
	wantEqual(t, "clusters", verge(t, context, "get", "clusters", "-o", "name").out, "cluster/cloud\ncluster/edge\ncluster/fog\n")
	wantEqual(t, "workers", strings.Count(verge(t, context, "get", "workers", "-o", "name").out, "\n"), 6)
	wantEqual(t, "instances", len(runningIn(t, d.dir)), 3)
	d.overcommits(context)
	workers := must[[]string](t)(filepath.Glob(filepath.Join(d.dir, "workers", "*")))
	wantEqual(t, "directories of workers", len(workers), 6)
	d.interrupt()
	if left := processesOf(d.dir); len(left) > 0 {
		t.Errorf("processes are left: %s", describe(left))
	}
	if _, err := os.Stat(d.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is left: %v", err)
	}
	for _, x := range workers {
		if left, _ := groupsOf(x); len(left) > 0 {
			t.Errorf("control groups are left: %v", left)
		}
		removeGroups(t, x)
	}
}

// overcommits: each worker offers all of the machine, however small that is, and dev says so.
func (d *devRun) overcommits(context string) {
	d.t.Helper()
	wantWords(d.t, "what it says", d.greeting, "each worker offers all of this machine", "overcommitted")
	var workers struct {
		Items []rpc.WorkerView `json:"items"`
	}
	out := verge(d.t, context, "get", "workers", "-o", "json").out
	if err := json.Unmarshal([]byte(out), &workers); err != nil {
		d.t.Fatalf("%v: %s", err, out)
	}
	for _, w := range workers.Items {
		if least := api.CPU(900 * runtime.NumCPU()); w.Capacity.CPU < least {
			d.t.Errorf("worker %s offers %s processors, want at least %s", w.Name, w.Capacity.CPU, least)
		}
	}
	wantEqual(d.t, "workers that say what they offer", len(workers.Items), 6)
}

// TestDevSharesPorts: without the service network all workers of verge dev have the ports of one machine. A second service
// with the same number is placed nowhere, also in no other cluster, and a plan says so.
func TestDevSharesPorts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	tmp := devDir(t)
	d := startDev(t, tmp, freeAddr(t), "--workers", "1", "--clusters", "edge,fog", "--network", "loopback")
	defer d.interrupt()
	context := filepath.Join(d.dir, "context.yaml")
	_, port, err := net.SplitHostPort(freeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	file := func(app string) string {
		name := filepath.Join(tmp, app+".yaml")
		text := fmt.Sprintf("application: %s\nservices: {db: {command: [testprogram], ports: [{name: http, number: %s}]}}\n", app, port)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if r := verge(t, context, "apply", file("one")); r.code != 0 {
		t.Fatalf("apply: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	r := verge(t, context, "plan", file("two"))
	wantEqual(t, "exit code of the plan", r.code, 2)
	wantWords(t, "the plan", r.out, "1 instance would wait", "port "+port+" of one.db", "without the service network")
}

// TestDevKept uses one data directory twice, and tries to do so at once.
func TestDevKept(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	tmp, gateway := devDir(t), freeAddr(t)
	data := filepath.Join(tmp, "data")
	args := []string{"--data-dir", data, "--clusters", "edge", "--workers", "2"}
	d := startDev(t, tmp, gateway, args...)
	context := filepath.Join(data, "context.yaml")
	app := filepath.Join(tmp, "app.yaml")
	if err := os.WriteFile(app, []byte(plain("kept", "1", 2, 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := verge(t, context, "apply", app); r.code != 0 {
		t.Fatalf("apply: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	second := verge(t, "", append([]string{"dev", "--api", freeAddr(t), "--gateway", freeAddr(t)}, args...)...)
	refused(t, "a second one", second, "in use", data, "--data-dir")
	wantEqual(t, "the first one still answers", must[who](t)(whoami(gateway, "kept.test", "/whoami")).Mark, "1")
	d.interrupt()
	if left := processesOf(data); len(left) > 0 {
		t.Errorf("processes are left: %s", describe(left))
	}
	if _, err := os.Stat(context); err != nil {
		t.Errorf("the data directory is not kept: %v", err)
	}
	d = startDev(t, tmp, gateway, args...)
	eventually(t, 15*time.Second, "what was applied runs again", func() error {
		if _, err := whoami(gateway, "kept.test", "/whoami"); err != nil {
			return err
		}
		if r := verge(t, context, "get", "app/kept", "-o", "json"); !strings.Contains(r.out, `"holds": true`) {
			return fmt.Errorf("%s%s", r.out, r.err)
		}
		return nil
	})
	wantEqual(t, "instances", len(runningIn(t, data)), 2)
	d.interrupt()
	if d.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
		t.Error("it was ended by the signal instead of ending itself")
	}
}
