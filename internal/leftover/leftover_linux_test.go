package leftover

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/wire"
)

// bed is a machine with what workers leave on it.
type bed struct {
	t    *testing.T
	o    Options
	host *nstest.Host
}

// newDir makes a directory for a worker; with intact it has one.
func (b *bed) newDir(intact bool) string {
	b.t.Helper()
	dir := b.t.TempDir()
	if intact {
		if err := os.WriteFile(filepath.Join(dir, wire.EngineConfigFile), []byte("{}"), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := register(b.o, dir); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// run starts a shell script that says when it is set up, and returns its process.
func (b *bed) run(script string, env []string, args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command("sh", append([]string{filepath.Base(script)}, args...)...)
	cmd.Dir = filepath.Dir(script)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // open until the end, for it to read
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended, or the test has failed
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		b.t.Fatalf("it said %q: %v", line, err)
	}
	return cmd
}

// script of a daemon: with the name "engine" it looks like one. It holds the lock.
func (b *bed) script(text string) string {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "engine")
	if err := os.WriteFile(file, []byte(text+"\necho up\nread never\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return file
}

// instance starts a process of one.
func (b *bed) instance(dir string) *exec.Cmd {
	return b.run(b.script(""), []string{"VERGE_ENGINE=" + markOf(dir)[:envMark], "VERGE_INSTANCE=a.b.0", "HOME=" + dir + "/instances/a.b.0/work"})
}

// network makes the device and the table of a worker.
func (b *bed) network(dir string) {
	mark := markOf(dir)[:netMark]
	b.host.Run("ip", "link", "add", hostnet.Devices+mark+"i1", "type", "veth", "peer", "name", "x"+mark)
	b.host.NFT("table inet " + hostnet.Tables + mark + " { }")
}

func (b *bed) find(dir string) *Worker {
	b.t.Helper()
	var list []Worker
	var err error
	b.host.Do(func() { list, err = Find(b.t.Context(), b.o) })
	if err != nil {
		b.t.Logf("not all was looked at: %v", err)
	}
	for i := range list {
		if strings.HasPrefix(markOf(dir), list[i].Mark) {
			return &list[i]
		}
	}
	return nil
}

func kinds(w *Worker) (out []Kind) {
	for i := range w.Items {
		out = append(out, w.Items[i].Kind)
	}
	return slices.Compact(out)
}

// ended says whether a process has, without waiting for it.
func ended(cmd *exec.Cmd) bool {
	var u unix.WaitStatus
	pid, err := unix.Wait4(cmd.Process.Pid, &u, unix.WNOHANG, nil)
	return pid == cmd.Process.Pid || errors.Is(err, unix.ECHILD)
}

// What a worker left whose directory was removed is found and removed, and nothing of one
// that runs, nor of one that could be started again.
func TestRemoveWhatWasLeft(t *testing.T) {
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")}, host: nstest.New(t)}

	gone := b.newDir(false)
	left := b.instance(gone)
	engine := b.run(b.script(`exec 9>"$2/engine.lock"; rm "$2/engine.lock"`), nil, "--data-dir", gone)
	b.network(gone)
	space := filepath.Join(gone, "netns", "a.b.0")
	if err := os.MkdirAll(space, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", space, "tmpfs", 0, "size=4k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(space, unix.MNT_DETACH) })

	live := b.newDir(true)
	b.run(b.script(`exec 9>"$2/engine.lock"`), nil, "--data-dir", live)
	running := b.instance(live)
	b.network(live)

	stopped := b.newDir(true)
	waiting := b.instance(stopped)

	w := b.find(gone)
	if w == nil {
		t.Fatal("nothing was found")
	}
	if want := []Kind{Daemon, Process, Mount, Table, Device}; !slices.Equal(kinds(w), want) || w.Dir != gone || w.Intact {
		t.Errorf("found %v of %s (intact: %v), want %v of %s", kinds(w), w.Dir, w.Intact, want, gone)
	}
	if w := b.find(live); w != nil {
		t.Errorf("of one that runs: %+v", w)
	}
	s := b.find(stopped)
	if s == nil || !s.Intact || !slices.Equal(kinds(s), []Kind{Process}) {
		t.Fatalf("of one that could be started: %+v", s)
	}
	if ended(left) || ended(engine) || ended(waiting) {
		t.Fatal("looking has ended something")
	}

	var err error
	b.host.Do(func() { err = Remove(t.Context(), b.o, w) })
	if err != nil {
		t.Fatal(err)
	}
	if w := b.find(gone); w != nil {
		t.Errorf("still there: %+v", w)
	}
	if !ended(left) || !ended(engine) || ended(running) || ended(waiting) {
		t.Errorf("ended: instance %v, engine %v; of others: %v, %v", ended(left), ended(engine), ended(running), ended(waiting))
	}
	rules := b.host.Run("nft", "list", "tables")
	if strings.Contains(rules, markOf(gone)[:netMark]) || !strings.Contains(rules, markOf(live)[:netMark]) {
		t.Errorf("tables are\n%s", rules)
	}
	if _, err := os.Stat(filepath.Join(b.o.Registry, markOf(gone))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still registered: %v", err)
	}

	only := b.o
	only.Dir = live
	if _, err := Find(t.Context(), only); err == nil || !strings.Contains(fmt.Sprint(err), live) {
		t.Errorf("one that runs, by its name: %v", err)
	}
	b.host.Do(func() { err = Remove(t.Context(), b.o, s) })
	if err != nil || !ended(waiting) {
		t.Errorf("of one that could be started, by its name: %v, ended %v", err, ended(waiting))
	}
}

// A worker that another one has followed in the same directory has left its engine alone:
// the rest is the other's.
func TestAnEngineThatWasFollowed(t *testing.T) {
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")}, host: nstest.New(t)}
	dir := b.newDir(true)
	b.run(b.script(`exec 9>"$2/engine.lock"; rm "$2/engine.lock"`), nil, "--data-dir", dir)
	b.run(b.script(`exec 9>"$2/engine.lock"`), nil, "--data-dir", dir)
	instance := b.instance(dir)
	w := b.find(dir)
	if w == nil || !slices.Equal(kinds(w), []Kind{Daemon}) {
		t.Fatalf("found %+v", w)
	}
	if ended(instance) {
		t.Error("the instance of the one that runs has ended")
	}
}
