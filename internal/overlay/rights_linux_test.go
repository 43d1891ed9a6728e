package overlay

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

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
	program := dir + "/test"                                                               // where anybody may find it
	for _, err := range []error{os.Chmod(dir, 0o777), os.WriteFile(program, exe, 0o755)} { //nolint:gosec // in a temporary folder
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
