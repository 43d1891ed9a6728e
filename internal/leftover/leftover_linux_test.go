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

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
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
		if err := os.WriteFile(filepath.Join(dir, engineapi.EngineConfigFile), []byte("{}"), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := register(b.o, dir); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// verge is a shell by that name.
func (b *bed) verge() string {
	b.t.Helper()
	shell, err := exec.LookPath("sh")
	if err == nil {
		shell, err = filepath.EvalSymlinks(shell)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	program, err := os.ReadFile(shell)
	file := filepath.Join(b.t.TempDir(), "verge")
	if err == nil {
		err = os.WriteFile(file, program, 0o700)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return file
}

// run starts a shell script that says when it is set up, and returns its process.
func (b *bed) run(script string, env []string, args ...string) *exec.Cmd {
	return b.runBy(b.verge(), script, env, args...)
}

func (b *bed) runBy(shell, script string, env []string, args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := exec.Command(shell, append([]string{filepath.Base(script)}, args...)...)
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
	return b.run(b.script(""),
		[]string{"VERGE_ENGINE=" + wire.Mark(dir)[:envMark], "VERGE_INSTANCE=a.b.0",
			"HOME=" + dir + "/instances/a.b.0/work"})
}

// network makes the device and the table of a worker.
func (b *bed) network(dir string) {
	mark := wire.Mark(dir)[:netMark]
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
		if strings.HasPrefix(wire.Mark(dir), list[i].Mark) {
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
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")},
		host: nstest.New(t)}

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
	if want := []Kind{Daemon, Process, Mount, Table, Device}; !slices.Equal(kinds(w), want) || w.Dir != gone ||
		w.Intact {
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
		t.Errorf("ended: instance %v, engine %v; of others: %v, %v", ended(left), ended(engine), ended(running),
			ended(waiting))
	}
	rules := b.host.Run("nft", "list", "tables")
	if strings.Contains(rules, wire.Mark(gone)[:netMark]) || !strings.Contains(rules, wire.Mark(live)[:netMark]) {
		t.Errorf("tables are\n%s", rules)
	}
	if _, err := os.Stat(filepath.Join(b.o.Registry, wire.Mark(gone))); !errors.Is(err, os.ErrNotExist) {
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
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")},
		host: nstest.New(t)}
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

// A lock that was removed is no sign of an engine where another program has it open: that
// program is left alone, and the worker is not live.
func TestAnotherProgramHasTheLock(t *testing.T) {
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")},
		host: nstest.New(t)}
	gone := b.newDir(false)
	left := b.instance(gone)
	other := b.runBy("sh", b.script(`exec 9>"$2/engine.lock"; rm "$2/engine.lock"`), nil, "--data-dir", gone)
	w := b.find(gone)
	if w == nil || !slices.Equal(kinds(w), []Kind{Process}) {
		t.Fatalf("found %+v", w)
	}
	var err error
	b.host.Do(func() { err = Remove(t.Context(), b.o, w) })
	if err != nil || !ended(left) || ended(other) {
		t.Errorf("%v; ended: instance %v, another program %v", err, ended(left), ended(other))
	}
}

// devNet makes what a verge dev has in the kernel that let the machine forward.
func (b *bed) devNet(dir string) (bridge, table string) {
	mark := wire.Mark(dir)[:netMark]
	bridge, table = hostnet.Devices+mark+hostnet.DevBridge, hostnet.DevTables+mark
	b.host.Run("ip", "link", "add", bridge, "type", "bridge")
	b.host.Run("ip", "link", "set", bridge, "alias", hostnet.DevForwards+", in "+dir)
	b.host.NFT("table ip " + table + " { chain forward { type filter hook forward priority 0; }; }")
	b.host.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
	return bridge, table
}

func (b *bed) forwards() string {
	return strings.TrimSpace(b.host.Run("cat", "/proc/sys/net/ipv4/ip_forward"))
}

// The network of a verge dev that runs is left alone, also where its directory is gone and its
// process is not to be seen, and that of another is removed. The machine forwards as long as
// somebody else has rules for it, a worker or a verge dev among them.
func TestNetworkOfDev(t *testing.T) {
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")},
		host: nstest.New(t)}
	dir := filepath.Join(t.TempDir(), "gone")
	bridge, _ := b.devNet(dir)
	var runs *claim.Claim
	var err error
	b.host.Do(func() { runs, err = claim.TakeDev(wire.Mark(dir)[:netMark]) })
	if err != nil {
		t.Fatal(err)
	}
	if w := b.find(dir); w != nil {
		t.Fatalf("of one that runs: %+v", w)
	}
	only := b.o
	only.Dir = dir
	b.host.Do(func() { _, err = Find(t.Context(), only) })
	if p := (*wire.Problem)(nil); !errors.As(err, &p) {
		t.Errorf("one that runs, by its name: %v", err)
	}
	if err := runs.Close(); err != nil {
		t.Fatal(err)
	}
	const others = "table inet verge-0aaaa { chain forward { type filter hook forward priority 0; }; }"
	for _, c := range []struct{ rules, forwards string }{{others, "1"}, {"", "0"}} {
		if c.rules != "" {
			b.host.NFT(c.rules)
		}
		w := b.find(dir)
		if w == nil || !w.Dev || !slices.Equal(kinds(w), []Kind{Table, Device}) {
			t.Fatalf("found %+v", w)
		}
		b.host.Do(func() { err = Remove(t.Context(), b.o, w) })
		if err != nil || b.forwards() != c.forwards {
			t.Errorf("%v; beside %q the machine forwards: %s, want %s", err, c.rules, b.forwards(), c.forwards)
		}
		if links := b.host.Run("ip", "link"); strings.Contains(links, bridge) {
			t.Errorf("still there:\n%s", links)
		}
		if c.rules != "" {
			b.host.NFT("delete table inet verge-0aaaa")
			b.devNet(dir)
		}
	}
}

// Where somebody has the service network who does not say who it is, all of a worker may be
// theirs; what a verge dev has left is not.
func TestAHolderThatDoesNotSayWhoItIs(t *testing.T) {
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: filepath.Join(t.TempDir(), "none")},
		host: nstest.New(t)}
	var c *claim.Claim
	var err error
	b.host.Do(func() { c, err = claim.Take("somebody") })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	worker, dev := b.newDir(false), filepath.Join(t.TempDir(), "dev")
	b.network(worker)
	b.devNet(dev)
	if w := b.find(worker); w != nil {
		t.Errorf("of a worker that may run: %+v", w)
	}
	w := b.find(dev)
	if w == nil {
		t.Fatal("nothing was found of a verge dev")
	}
	b.host.Do(func() { err = Remove(t.Context(), b.o, w) })
	if err != nil && !strings.Contains(err.Error(), "does not say where it works") || b.find(dev) != nil {
		t.Errorf("%v; left: %+v", err, b.find(dev))
	}
}

// Containers are found and removed by their label, with their processes and files.
func TestContainers(t *testing.T) {
	ctd := containertest.Need(t)
	nstest.Need(t)
	b := &bed{t: t, o: Options{Registry: t.TempDir(), Containerd: ctd.Address}, host: nstest.New(t)}
	image, err := containertest.Build(containertest.Config{Entrypoint: []string{"/bin/sh", "-c"},
		Cmd: []string{"sleep 100000"}})
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err == nil {
		err = containertest.Save(archive, "left:1", image)
	}
	if err != nil {
		t.Fatal(err)
	}
	gone, live := b.newDir(false), b.newDir(true)
	b.run(b.script(`exec 9>"$2/engine.lock"`), nil, "--data-dir", live)
	commands := [][]string{{"images", "import", archive}}
	for _, dir := range []string{gone, live} {
		commands = append(commands,
			[]string{"run", "-d", "--label", ctrd.LabelEngine + "=" + wire.Mark(dir)[:envMark], "--label",
				ctrd.LabelInstance + "=a.b.0", "docker.io/library/left:1", "c" + wire.Mark(dir)[:envMark]})
	}
	for _, args := range commands {
		if out, err := ctd.Ctr(args...); err != nil {
			t.Fatalf("ctr %v: %v\n%s", args, err, out)
		}
	}
	if w := b.find(live); w != nil {
		t.Errorf("of one that runs: %+v", w)
	}
	w := b.find(gone)
	if w == nil || !slices.Equal(kinds(w), []Kind{Container}) || !strings.Contains(w.Items[0].Detail, "a.b.0") {
		t.Fatalf("found %+v", w)
	}
	b.host.Do(func() { err = Remove(t.Context(), b.o, w) })
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"containers", "tasks", "snapshots"} {
		out, err := ctd.Ctr(kind, "ls")
		if err != nil || strings.Contains(out, "c"+wire.Mark(gone)[:envMark]) ||
			!strings.Contains(out, "c"+wire.Mark(live)[:envMark]) {
			t.Errorf("%s are (%v)\n%s", kind, err, out)
		}
	}
}
