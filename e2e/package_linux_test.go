package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// TestPackages makes the packages of this machine's architecture as their makers do, but
// for the compression of one, and installs, upgrades and removes that on a clean Debian with
// its systemd, by what the documentation says.
func TestPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a system")
	}
	t.Parallel()
	d := newDebian(t)
	dir := t.TempDir()
	makePackager(t)
	makePackages(t, dir)
	sums := must[[]byte](t)(os.ReadFile(filepath.Join(dir, "SHA256SUMS")))
	check := exec.Command("sha256sum", "-c", "SHA256SUMS")
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 5 {
		t.Fatalf("checksums: %v\n%s", err, out)
	}
	packageHasParts(t, one(t, dir, "verge_*_"+runtime.GOARCH+".cdx.json"))
	packageIsImage(t, one(t, dir, "*_linux.oci.tar"))
	packageInstalls(t, d, one(t, dir, "verge_*_"+runtime.GOARCH+".deb"))
	packageHasLab(t, one(t, dir, "verge-lab_*_"+runtime.GOARCH+".deb"))

	again := t.TempDir()
	makePackages(t, again)
	if got := must[[]byte](t)(os.ReadFile(filepath.Join(again, "SHA256SUMS"))); !bytes.Equal(got, sums) {
		t.Errorf("the same sources gave different packages:\n%sand\n%s", sums, got)
	}
}

// makePackages runs make packages.
func makePackages(t *testing.T, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	made := exec.CommandContext(ctx, "make", "--no-print-directory", "packages",
		"ARCHS="+runtime.GOARCH, "RELEASE="+dir, "COMPRESS=gzip") // xz takes ten seconds
	made.Dir = ".."
	for _, v := range os.Environ() { // of the make that runs the tests
		if !strings.HasPrefix(v, "MAKE") && !strings.HasPrefix(v, "MFLAGS") {
			made.Env = append(made.Env, v)
		}
	}
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
}

// one is the one file of a folder with a name like pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s: %q, %v", pattern, files, err)
	}
	return files[0]
}

// packageHasParts holds the list of parts against what the go command says of a program.
func packageHasParts(t *testing.T, file string) {
	t.Helper()
	var list struct {
		Format     string `json:"bomFormat"`
		Components []struct{ Name, Version, Purl string }
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil || list.Format != "CycloneDX" {
		t.Fatalf("%s: format %q, %v", file, list.Format, err)
	}
	has := map[string]bool{}
	for _, c := range list.Components {
		has[c.Name+" "+c.Version] = true
		if !strings.HasPrefix(c.Purl, "pkg:golang/") {
			t.Errorf("%s has the address %q", c.Name, c.Purl)
		}
	}
	out, err := exec.Command("go", "version", "-m", programs.verge).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "dep" {
			modules++
			if !has[f[1]+" "+f[2]] {
				t.Errorf("%s %s is in the program and not in the list of its parts", f[1], f[2])
			}
		}
	}
	if modules < 20 {
		t.Errorf("the program has %d modules", modules)
	}
}

// packageHasLab looks into the package of the lab.
func packageHasLab(t *testing.T, deb string) {
	t.Helper()
	out, err := exec.Command("dpkg", "--contents", deb).Output()
	for _, file := range []string{"./usr/bin/verge-lab", "./usr/share/man/man1/verge-lab-up.1.gz", "./usr/share/man/man1/verge-sim-place.1.gz"} {
		if !strings.Contains(string(out), file+"\n") {
			t.Errorf("%s has no %s: %v\n%s", deb, file, err, out)
		}
	}
}

// packageIsImage runs the program in the image.
func packageIsImage(t *testing.T, archive string) {
	t.Helper()
	ctd := containertest.Need(t)
	r := verge(t, "", "image", "load", archive, "--containerd", ctd.Address)
	_, name, ok := strings.Cut(strings.TrimSuffix(r.out, " loaded\n"), "image ")
	if r.code != 0 || !ok {
		t.Fatalf("load: %+v", r)
	}
	ctr := func(args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), cliLimit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "ctr", append([]string{"--address", ctd.Address, "--namespace", "verge"}, args...)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs // the program warns there that it has no context
		if err := cmd.Run(); err != nil {
			t.Fatalf("ctr %s: %v\n%s", strings.Join(args, " "), err, errs.String())
		}
	}
	// Into a file: ctr does not wait for what a program that ends at once has printed.
	file := filepath.Join(t.TempDir(), "output")
	ctr("run", "--rm", "--read-only", "--log-uri", "file://"+file, name, "packaged", "/usr/bin/verge", "version")
	if got := string(must[[]byte](t)(os.ReadFile(file))); !strings.Contains(got, "verge v") {
		t.Errorf("the image's version is %q", got)
	}
}

// packageInstalls runs root, cluster and worker by the units of the package.
func packageInstalls(t *testing.T, d *debian, deb string) {
	t.Helper()
	d.boot()
	blocks := installation(t)
	d.copy(deb, "/root/verge_new.deb")
	for i, role := range []string{"root", "cluster", "worker"} {
		if i == 0 {
			d.sh("cd /root && dpkg -i verge_*.deb")
			for _, role := range []string{"root", "cluster", "worker"} {
				if out := d.try("systemctl is-enabled verge-%[1]s; systemctl is-active verge-%[1]s", role); out != "disabled\ninactive\n" {
					t.Errorf("after its installation the %s is %q", role, out)
				}
			}
		}
		if role == "worker" {
			d.sh("echo 'gateway: %q' > /etc/verge/worker.d/gateway.yaml", packageGateway)
		}
		d.sh("set -e; cd /root\n%s", blocks[i].text)
		if out := d.try("systemctl is-active verge-%s", role); out != "active\n" {
			t.Errorf("the %s is %q", role, out)
		}
	}
	d.sh("verge version && test -s /usr/share/man/man1/verge-worker.1.gz && bash -n /usr/share/bash-completion/completions/verge")
	if out := d.sh("systemd-analyze verify /usr/lib/systemd/system/verge-*.service 2>&1"); out != "" {
		t.Errorf("systemd about the units: %s", out)
	}
	const context = "VERGE_CONTEXT=/var/lib/verge/root/context.yaml verge "
	d.sh("printf 'application: nap\nservices:\n  web:\n    command: [sleep, \"100000\"]\n' > /root/nap.yaml; " + context + "apply /root/nap.yaml")

	const find = "grep -lsx %s /proc/[0-9]*/comm"
	runs := func() string { return d.try(find, "sleep") }
	before := runs()
	if strings.Count(before, "\n") != 1 {
		t.Fatalf("the instance has the processes %q", before)
	}
	agent := d.sh("systemctl show -P MainPID verge-worker")
	d.sh("echo 'log-level: debug' > /etc/verge/worker.d/level.yaml; systemctl reload verge-worker")
	if after := d.sh("systemctl show -P MainPID verge-worker"); after != agent {
		t.Error("a reload started the worker's agent again")
	}
	packageUpgrades(t, d, context, "/root/verge_new.deb")
	if after := d.sh("systemctl show -P MainPID verge-worker"); after == agent {
		t.Error("an upgrade did not start the worker's agent again")
	}
	if after := runs(); after != before {
		t.Errorf("an upgrade ended what ran: process %q before, %q after", before, after)
	}
	d.sh(context + "wait application/nap --for ready --timeout 1m")

	d.off()
	d.boot()
	d.eventually("it runs again after a restart of the machine", find, "sleep")
	d.sh(context + "wait application/nap --for ready --timeout 1m")

	d.sh("dpkg -r verge")
	// The last of an engine is after its answer.
	d.eventually("nothing is left of a package that was removed", "! "+find, "-e sleep -e verge")
	d.sh("test -e /etc/verge/root.yaml && test -e /var/lib/verge/root")
	if out := d.sh("dpkg -P verge 2>&1"); !strings.Contains(out, "/var/lib/verge is left") {
		t.Errorf("a purge says: %s", out)
	}
	d.sh("test ! -e /etc/verge && test -e /var/lib/verge/root")
}

// installation is what the documentation tells to type on the machines of a root, a cluster
// and a worker.
func installation(t *testing.T) []shellBlock {
	t.Helper()
	text := string(must[[]byte](t)(os.ReadFile("../docs/install.md")))
	_, text, _ = strings.Cut(text, "\n## Packages\n")
	text, _, _ = strings.Cut(text, "\n## ")
	blocks := shellBlocks("docs/install.md", text)
	if len(blocks) != 4 || blocks[0].text != "make packages\n" {
		t.Fatalf("docs/install.md has, about packages, %d blocks of commands: %+v", len(blocks), blocks)
	}
	return blocks[1:]
}

// debian is a system in a container of systemd's, with a network of its own.
type debian struct {
	t    *testing.T
	root string

	machine *exec.Cmd
	console bytes.Buffer
	ended   chan struct{}
	leader  string // PID of its first process, seen from here
}

// newDebian lays out the files of one, which are fetched the first time.
func newDebian(t *testing.T) *debian {
	t.Helper()
	archive := must[string](t)(filepath.Abs("../bin/debian.tar"))
	if out, err := exec.Command("../tools/debian", archive).CombinedOutput(); err != nil {
		if os.Getenv("VERGE_CI_NO_SKIP") != "" {
			t.Fatalf("a clean Debian cannot be made: %v\n%s", err, out)
		}
		t.Skipf("SKIPPED, packages were not tried; a clean Debian cannot be made: %v\n%s", err, out)
	}
	d := &debian{t: t, root: filepath.Join(newDir(t), "debian")}
	if err := os.Mkdir(d.root, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("tar", "-xpf", archive, "-C", d.root, "--exclude=./dev/*").CombinedOutput(); err != nil {
		t.Fatalf("laying out a Debian: %v\n%s", err, out)
	}
	t.Cleanup(d.off)
	return d
}

// boot starts it and waits for its systemd.
func (d *debian) boot() {
	d.t.Helper()
	d.console.Reset()
	d.machine = exec.Command("systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--private-network",
		"--machine", fmt.Sprintf("verge-test-%d", os.Getpid()), "--console=pipe", "--directory", d.root)
	d.machine.Stdout, d.machine.Stderr = &d.console, &d.console
	d.machine.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	d.machine.WaitDelay = 5 * time.Second // for a process that has its console and is left
	if err := d.machine.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	d.ended = ended
	go func() {
		defer close(ended)
		_ = d.machine.Wait() // it says nothing that its console does not
	}()
	eventually(d.t, 30*time.Second, "a system has started", func() (err error) {
		d.leader, err = firstOf(d.machine.Process.Pid)
		return err
	})
	d.eventually("systemd is there", "systemctl list-units --no-legend multi-user.target | grep ' active '")
}

// firstOf is the first process of the system that a systemd-nspawn has started. That of
// another child, which lays out its file systems, is no such one and ends soon.
func firstOf(nspawn int) (pid string, err error) {
	children, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", nspawn))
	if err != nil {
		return "", err
	}
	for _, pid := range strings.Fields(string(children)) {
		comm, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err == nil && string(comm) == "systemd\n" { // the others are called (sd-stubouter) and such
			return pid, nil
		}
	}
	return "", fmt.Errorf("children of systemd-nspawn are %q, none of them is systemd", children)
}

// off ends it as a loss of power does.
func (d *debian) off() {
	if d.machine == nil {
		return
	}
	if d.t.Failed() && d.leader != "" {
		d.t.Logf("its log:\n%s", d.try("journalctl -b --no-pager -n 150"))
	}
	// With its first process all others end, and then systemd-nspawn.
	if pid, err := strconv.Atoi(d.leader); err == nil {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	} else {
		_ = d.machine.Process.Kill() // likewise
	}
	select {
	case <-d.ended:
	case <-time.After(time.Minute):
		d.t.Errorf("systemd-nspawn does not end with its system")
		_ = d.machine.Process.Kill() // likewise
		<-d.ended
	}
	if d.t.Failed() {
		d.t.Logf("its console:\n%s", d.console.String())
	}
	d.machine, d.leader = nil, ""
}

// run runs a shell command in it.
func (d *debian) run(stdin io.Reader, format string, args ...any) (out, errs string, err error) {
	script := format
	if len(args) > 0 {
		script = fmt.Sprintf(format, args...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), cliLimit) // also while the test is cleaned up
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--target", d.leader, "--all", "sh", "-c", script)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	var o, e bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &o, &e
	cmd.WaitDelay = time.Second
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", script, errors.Join(err, ctx.Err()), o.String(), e.String())
	}
	return o.String(), e.String(), err
}

// sh runs a shell command that must succeed, and returns what it prints.
func (d *debian) sh(format string, args ...any) string {
	d.t.Helper()
	out, _, err := d.run(nil, format, args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// try runs a shell command and returns what it prints. It may fail.
func (d *debian) try(format string, args ...any) string {
	out, _, _ := d.run(nil, format, args...) // the exit code says less than the output
	return out
}

// eventually waits until a shell command succeeds.
func (d *debian) eventually(what, format string, args ...any) {
	d.t.Helper()
	eventually(d.t, 60*time.Second, what, func() error {
		_, _, err := d.run(nil, format, args...)
		return err
	})
}

// copy puts a file into it.
func (d *debian) copy(file, to string) {
	d.t.Helper()
	f, err := os.Open(file)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := d.run(f, "cat > %s", to); err != nil {
		d.t.Fatal(err)
	}
}
