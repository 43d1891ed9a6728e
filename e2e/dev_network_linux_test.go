package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/wire"
)

// TestDevServiceNetwork: where the machine can have the service network, verge dev has it. Two
// applications have the same port, names resolve, and the gateway answers where the user is.
// Nothing is left in the kernel after Ctrl-C, nor after it was killed and started again.
func TestDevServiceNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: the service network of verge dev needs root")
	}
	tmp, gateway := devDir(t), freeAddr(t)
	data := filepath.Join(tmp, "data")
	args := []string{"--data-dir", data, "--clusters", "edge,fog", "--workers", "1", "--network", "overlay"}
	d := startDev(t, tmp, gateway, args...)
	wantWords(t, "the greeting", d.greeting, "each worker is in the service network", "http://"+gateway)
	context := filepath.Join(data, "context.yaml")
	for _, app := range []string{"one", "two"} {
		d.applyMarked(app)
	}
	d.answers(context, gateway)

	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // it was killed
	eventually(t, 40*time.Second, "the workers of a verge dev that was killed end", func() error { return nothingRuns(data) })
	if left := devTraces(t); !strings.Contains(left, "verge-dev-") {
		t.Errorf("what is left of it: %q; the rest of this test proves nothing", left)
	}
	r := verge(t, "", "worker", "clean", "--dry-run")
	wantWords(t, "verge worker clean", r.out, "verge dev in "+data, "nftables table", "device")
	d = startDev(t, tmp, gateway, args...)
	if n := strings.Count(devTraces(t), "table ip verge-dev-"); n != 1 {
		t.Errorf("%d tables after it was started again: %s", n, devTraces(t))
	}
	d.answers(context, gateway)

	// Its workers as well: their instances are left.
	for _, p := range processesOf(data) {
		if len(p.args) > 1 && p.args[1] == "dev-worker" {
			_ = syscall.Kill(p.pid, syscall.SIGKILL) // it is there: nobody has ended it
		}
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Wait() // it was killed
	d = startDev(t, tmp, gateway, args...)
	d.answers(context, gateway)

	d.interrupt()
	if err := nothingRuns(data); err != nil {
		t.Error(err)
	}
	if left := devTraces(t); left != "" {
		t.Errorf("left in the kernel: %s", left)
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), " "+data+"/") {
		t.Errorf("mounts are left (%v)", err)
	}
}

// applyMarked applies an application whose instances say its name.
func (d *devRun) applyMarked(app string) {
	d.t.Helper()
	file := filepath.Join(d.tmp, app+".yaml")
	text := strings.ReplaceAll(`application: APP
services:
  db:
    command: [testprogram]
    env: {MARK: APP}
    affinity: {cluster: [edge]}
    ports: [{name: http, number: 5432, ingress: {host: APP.test}}]
  user: {command: [sleep, "100000"], affinity: {cluster: [fog]}}
`, "APP", app)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	if r := verge(d.t, filepath.Join(d.dir, "context.yaml"), "apply", file); r.code != 0 {
		d.t.Fatalf("apply: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}

// Two verge dev on one machine have each a network of its own, and the end of one is nothing to
// the other. One that can have none goes on without where it was told to.
func TestTwoDevsAndOneWithout(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: the service network of verge dev needs root")
	}
	tmp := devDir(t)
	start := func(name, network string) (d *devRun, gateway string) {
		gateway = freeAddr(t)
		return startDev(t, tmp, gateway, "--data-dir", filepath.Join(tmp, name), "--clusters", "edge,fog", "--workers", "1", "--network", network), gateway
	}
	apply := func(d *devRun) {
		for _, app := range []string{"one", "two"} {
			d.applyMarked(app)
		}
	}
	first, _ := start("first", "overlay")
	second, gateway := start("second", "overlay")
	for _, d := range []*devRun{first, second} {
		wantWords(t, "the greeting", d.greeting, "each worker is in the service network")
		apply(d)
	}
	if n := strings.Count(devTraces(t), "table ip verge-dev-"); n != 2 {
		t.Errorf("%d tables of two: %s", n, devTraces(t))
	}
	first.interrupt()
	second.answers(filepath.Join(tmp, "second", "context.yaml"), gateway)

	// Something else has the name of its bridge.
	dir := filepath.Join(tmp, "third")
	bridge := hostnet.Devices + wire.Mark(dir)[:5] + hostnet.DevBridge
	if out, err := exec.Command("ip", "link", "add", bridge, "type", "bridge").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer func() { _ = exec.Command("ip", "link", "del", bridge).Run() }()
	third, _ := start("third", "auto")
	wantWords(t, "the greeting", third.greeting, "there is no service network (making a bridge", "instances share the ports")
	third.interrupt()
	second.interrupt()
	if left := devTraces(t); strings.Count(left, "\n") != 1 || !strings.Contains(left, bridge) {
		t.Errorf("left in the kernel: %s", left)
	}
}

// answers checks that both applications are reached: at one port by one name, each its own, and
// through the gateway.
func (d *devRun) answers(context, gateway string) {
	d.t.Helper()
	for _, app := range []string{"one", "two"} {
		eventually(d.t, 20*time.Second, app+" answers", func() error {
			r := verge(d.t, context, "exec", app+".user.0", "--", "testprogram", "get", "http://db:5432/whoami")
			if !strings.Contains(r.out, app+".db.0") {
				return fmt.Errorf("by its name: exit code %d, %s%s", r.code, r.out, r.err)
			}
			at, err := whoami(gateway, app+".test", "/whoami")
			if err == nil && at.Mark != app {
				err = fmt.Errorf("at the gateway: %q", at.Mark)
			}
			return err
		})
	}
}

// nothingRuns is an error while there are processes of a directory.
func nothingRuns(dir string) error {
	if left := processesOf(dir); len(left) > 0 {
		return errors.New(describe(left))
	}
	return nil
}

// devTraces are the devices and tables that verge dev makes.
func devTraces(t *testing.T) (out string) {
	t.Helper()
	for _, look := range [][]string{{"ip", "-o", "link"}, {"nft", "list", "tables"}} {
		text := must[[]byte](t)(exec.Command(look[0], look[1:]...).Output())
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " vg") || strings.Contains(line, "verge-") {
				out += line
			}
		}
	}
	return out
}
