package container

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/core/mount"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// rights writes what the kernel says of the process that runs it, and tries what a
// container may not do.
const rights = `grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t\n' '  '
try() { if "$@" 2>/tmp/why; then echo -n "yes "; else echo -n "no ($(sed 's/.*: //' /tmp/why)) "; fi; }
echo -n "root "; try touch /x; echo -n "tmp "; try touch /tmp/x; echo -n "call "; try linux64 -R true; echo`

// TestSecurity looks from inside of containers at what they may do.
func TestSecurity(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	usual := api.Security{Root: api.RootReadOnly}.Capabilities()
	const none, few = "0000000000000000", "00000000000004fb"
	caps := func(inherited, permitted, effective, bounding, ambient string) string {
		return "CapInh: " + inherited + " CapPrm: " + permitted + " CapEff: " + effective + " CapBnd: " + bounding + " CapAmb: " + ambient + " "
	}
	const closed = "root no (Read-only file system) tmp yes call no (Operation not permitted) \n"
	for name, x := range map[string]struct {
		user string
		sec  runtime.Security
		want string
	}{
		"the usual": {"", runtime.Security{Capabilities: usual}, caps(none, few, few, few, none) + "NoNewPrivs: 1 Seccomp: 2 " + closed},
		"nothing":   {"", runtime.Security{}, caps(none, none, none, none, none) + "NoNewPrivs: 1 Seccomp: 2 " + closed},
		"another user": {
			"web", runtime.Security{Capabilities: usual}, caps(none, none, none, few, none) + "NoNewPrivs: 1 Seccomp: 2 " + closed,
		},
		"another user that was given one": {
			"web", runtime.Security{Capabilities: []string{"NET_RAW"}, Extra: []string{"NET_RAW"}},
			caps("0000000000002000", "0000000000002000", "0000000000002000", "0000000000002000", "0000000000002000") + "NoNewPrivs: 1 Seccomp: 2 " + closed,
		},
		"all that there is": {
			"", runtime.Security{WritableRoot: true, NewPrivileges: true, NoSeccomp: true, Capabilities: usual},
			caps(none, few, few, few, none) + "NoNewPrivs: 0 Seccomp: 0 root yes tmp yes call yes \n",
		},
	} {
		s := specOf(t, testImage, "/bin/sh", "-c", rights)
		s.Container.User, s.Container.Security = x.user, x.sec
		if out, e := run(t, d, s); out != x.want || e.Code != 0 {
			t.Errorf("%s: %q, want %q; %+v", name, out, x.want, e)
		}
	}

	// A command that runs beside it may do no more.
	s := specOf(t, testImage, "sleep", "1000")
	s.Container.Security.Capabilities = usual
	task, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := say(t, task, &out, rights); err != nil || out.String() != caps(none, few, few, few, none)+"NoNewPrivs: 1 Seccomp: 2 "+closed {
		t.Errorf("a command: %q, %v", out.String(), err)
	}
	end(t, task)

	// /tmp is bounded, and has what the image has there.
	s = specOf(t, testImage, "/bin/sh", "-c", `df -k /tmp | tail -1 | awk '{print $2}'; ls /tmp`)
	if out, _ := run(t, d, s); out != "65536\n" {
		t.Errorf("/tmp: %q", out)
	}
	load(t, c, "verge.test/full:1", containertest.Config{}, program(t, "/tmp"))
	s = specOf(t, "verge.test/full:1", "/bin/sh", "-c", "ls /tmp")
	if out, _ := run(t, d, s); !strings.HasPrefix(out, "verge-program") {
		t.Errorf("/tmp of an image that has something there: %q", out)
	}
	s = specOf(t, testImage, "/bin/sh", "-c", `df -k /tmp | tail -1 | awk '{print $2}'`)
	s.Container.Mounts = []runtime.Mount{{Tmpfs: 1 << 20, Target: "/tmp"}}
	if out, _ := run(t, d, s); out != "1024\n" {
		t.Errorf("a /tmp of its own: %q", out)
	}
	empty(t, c)
}

// program is a script in a directory, by its path.
func program(t *testing.T, dir string) string {
	t.Helper()
	f, err := os.CreateTemp(dir, "verge-program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.WriteString("#!/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestImagesWithSomethingInTmp(t *testing.T) {
	bare, made, full := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{made, full} {
		if err := os.Mkdir(dir+"/tmp", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(full+"/tmp/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dirs, empty := range map[string]bool{bare: true, made: true, bare + ":" + made: true, full: false, made + ":" + full: false, "/no/such/dir": false} {
		p := &imagestore.Resolved{}
		p.Look([]mount.Mount{{Type: "overlay", Options: []string{"lowerdir=" + dirs}}})
		if p.EmptyTmp != empty {
			t.Errorf("%s: %v", dirs, p.EmptyTmp)
		}
	}
}
