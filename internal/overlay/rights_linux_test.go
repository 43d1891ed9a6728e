package overlay

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/overlay/overlaytest"
)

// Who is not root learns that, and has taken nothing from who is.
func TestWithoutRights(t *testing.T) {
	const other = "VERGE_TEST_WITHOUT_RIGHTS"
	if dir := os.Getenv(other); dir != "" {
		_, err := Open(Options{Dir: dir, Worker: "w", Cluster: "c"})
		if err == nil || !strings.Contains(err.Error(), "not root") {
			t.Error(err)
		}
		return
	}
	overlaytest.Need(t)
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "verge-rights-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := dir + "/test" // where anybody may find it
	for _, err := range []error{os.Chmod(dir, 0o777),
		os.WriteFile(program, exe, 0o755)} { //nolint:gosec // in a temporary folder
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run", "^TestWithoutRights$")
	cmd.Dir, cmd.Env = dir, []string{other + "=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

// A machine whose settings cannot be written, as containers have it, is found out
// before anything waits for the network, and nothing is left of the attempt.
func TestSettingsThatCannotBeWritten(t *testing.T) {
	overlaytest.Need(t)
	const settings = "/proc/sys"
	for _, err := range []error{
		unix.Mount(settings, settings, "", unix.MS_BIND, ""),
		unix.Mount("", settings, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Dir: t.TempDir(), Worker: "w", Cluster: "c"}
	_, err := Open(o)
	if uerr := unix.Unmount(settings, unix.MNT_DETACH); uerr != nil {
		t.Fatal(uerr)
	}
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("it opens: %v", err)
	}
	w := &world{t: t, opts: o}
	w.nothingLeft()
	if who, has := claim.Holder(); has {
		t.Errorf("%s still has it", who)
	}
}
