package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

func TestContainersOfAWorker(t *testing.T) {
	if os.Geteuid() != 0 {
		f := the(t, []Finding{Node{}.containers(t.Context())}, checkContainers)
		if f.Status != Note || !strings.Contains(f.Detail, "root") {
			t.Errorf("%+v", f)
		}
		return
	}
	dir := t.TempDir()
	f := the(t, []Finding{Node{Containerd: filepath.Join(dir, "none.sock")}.containers(t.Context())}, checkContainers)
	if f.Status != Note || !strings.Contains(f.Remedy, "install containerd") ||
		!strings.Contains(f.Detail, "runtime: container wait") {
		t.Errorf("not installed: %+v", f)
	}
	ctd := containertest.Need(t)
	f = the(t, []Finding{Node{Containerd: ctd.Address}.containers(t.Context())}, checkContainers)
	for _, want := range []string{"containerd ", "overlayfs", "runc ", "control groups v", ctd.Address} {
		if !strings.Contains(f.Detail, want) {
			t.Errorf("works: %+v, without %q", f, want)
		}
	}
	// A socket behind which nobody answers any more.
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f = the(t, []Finding{Node{Containerd: dead}.containers(t.Context())}, checkContainers)
	if f.Status != Warn || !strings.Contains(f.Detail, "does not answer") || !strings.Contains(f.Remedy, "systemctl") {
		t.Errorf("dead: %+v", f)
	}
}
