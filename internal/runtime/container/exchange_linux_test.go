package container

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/runtime/workdir"
)

// A file of a container that runs is exchanged many times: who reads it meanwhile finds
// one of the values, whole; mounts do not add up, an adopted one can do it, too, and
// this process itself sees nothing of it.
func TestExchange(t *testing.T) {
	c := containertest.Need(t)
	load(t, c, testImage, containertest.Config{WorkingDir: "/srv"})
	base := t.TempDir()
	engine := func() *Driver {
		d := New(Options{Base: base, Address: c.Address})
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	d := engine()
	place := workdir.Place{Work: filepath.Join(base, "work"), Mounts: filepath.Join(base, "mounts"), MayMount: true}
	if err := os.Mkdir(place.Work, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := place.Clear(); err != nil {
			t.Error(err)
		}
	})
	const lines = 2000
	file := func(n int) workdir.File {
		return workdir.File{Path: "file-0", Content: bytes.Repeat(fmt.Appendf(nil, "value %d\n", n), lines), Mode: 0o400, Secret: true}
	}
	if _, err := place.Prepare([]workdir.File{file(0)}, nil, nil); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(place.Work, "file-0")
	s := specOf(t, testImage, "/bin/sh", "-c", fmt.Sprintf(`
while [ ! -e /tmp/stop ]; do
  sort keys/key | uniq -c > /tmp/seen
  [ "$(sed 's/ *\(%d\) value [0-9]*/one/' /tmp/seen)" = one ] || { echo half; cat /tmp/seen; }
  echo x >> /tmp/turns
done`, lines))
	s.Container.User = "1000:1000"
	s.Container.Mounts = []runtime.Mount{{Source: source, Target: "keys/key", Own: true}}
	started, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	in := func(script string) string {
		t.Helper()
		out, err := os.CreateTemp(t.TempDir(), "out")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if e, err := started.Exec(t.Context(), runtime.Exec{Command: []string{"/bin/sh", "-c", script}, Stdout: out, Stderr: out}); err != nil || e.Code != 0 {
			t.Fatalf("%s: %+v, %v", script, e, err)
		}
		b, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	const turns = 100
	var task runtime.Task = started
	for n := 1; n <= turns; n++ {
		if n == turns/2 {
			if task, err = engine().Adopt(t.Context(), s, started.Handle()); err != nil {
				t.Fatal(err)
			}
		}
		if err := place.Replace(file(n), 0); err != nil {
			t.Fatal(err)
		}
		if err := task.(runtime.Exchanger).Exchange(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			if got := in("head -n 1 /srv/keys/key; stat -c '%a %u:%g' /srv/keys/key; wc -l < /tmp/turns > /dev/null"); got != fmt.Sprintf("value %d\n400 1000:1000", n) {
				t.Fatalf("after exchange %d the container sees %q", n, got)
			}
		}
	}
	var kernel unix.Utsname
	if err := unix.Uname(&kernel); err != nil {
		t.Fatal(err)
	}
	if n := in("grep -c ' /srv/keys/key ' /proc/self/mounts"); n != "1" {
		t.Logf("kernel %s: %s mounts of it are left in the container", unix.ByteSliceToString(kernel.Release[:]), n)
	}
	in("touch /tmp/stop")
	exitOf(t, started)
	if log, err := logfile.Read(s.LogDir, 0, 0); err != nil || len(log.Data) > 0 {
		t.Errorf("a reader found something else than one value: %s, %v", log.Data, err)
	}
	if err := task.(runtime.Exchanger).Exchange(t.Context(), source); err == nil {
		t.Error("exchanged in a container that has ended")
	}
	if now, err := os.Readlink("/proc/self/ns/mnt"); err != nil || now != ours {
		t.Errorf("this process has the mounts of %s, before %s", now, ours)
	}
	if err := started.Cleanup(); err != nil {
		t.Error(err)
	}
	empty(t, c)
}

// What runs in a container may put a link in the place of the folder of a file: nothing
// of where that leads is taken away or covered.
func TestExchangeFollowsNoBait(t *testing.T) {
	c := containertest.Need(t)
	load(t, c, testImage, containertest.Config{WorkingDir: "/srv"})
	base := t.TempDir()
	d := New(Options{Base: base, Address: c.Address})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	source := filepath.Join(base, "secret")
	if err := os.WriteFile(source, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	const bait = "keys" // over which runc has mounted nothing that can be read
	s := specOf(t, testImage, "/bin/sh", "-c", "mv own gone && ln -s /proc own && grep ' /proc/"+bait+" ' /proc/self/mounts && touch ready && while [ ! -e stop ]; do sleep 0.05; done; grep ' /proc/"+bait+" ' /proc/self/mounts")
	s.Container.Security.WritableRoot = true
	s.Container.Mounts = []runtime.Mount{{Source: source, Target: "own/" + bait, Own: true}}
	started, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	sh := func(script string) bool {
		e, err := started.Exec(t.Context(), runtime.Exec{Command: []string{"/bin/sh", "-c", script}})
		return err == nil && e.Code == 0
	}
	eventually(t, "it has laid the bait", func() bool { return sh("test -e /srv/ready") })
	if err := started.(runtime.Exchanger).Exchange(t.Context(), source); err == nil || !strings.Contains(err.Error(), "is not the file") {
		t.Errorf("the bait was taken: %v", err)
	}
	sh("touch /srv/stop")
	exitOf(t, started)
	log, err := logfile.Read(s.LogDir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(log.Data), []byte("\n"))
	if len(lines) != 2 || !bytes.Equal(lines[0], lines[1]) {
		t.Errorf("its mounts before and after: %q", lines)
	}
}
