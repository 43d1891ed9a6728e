// Package labtest is what the tests of the lab share: the program that runs in the
// hosts and verge-lab, built once and without the race detector, under which a dozen of them would
// take several times as long, and whether there can be a lab at all.
package labtest

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/verge-edge/verge/internal/lab"
)

// root of the repository, as seen from the tests.
var root string

// verge and tool are the programs, once they are built.
var verge, tool string

// Main builds the program and runs the tests; to is the root of the repository. It
// returns the exit code.
func Main(m *testing.M, to string) int {
	root = to
	flag.Parse()
	if testing.Short() || lab.Possible() != nil {
		return m.Run() // nothing will need it
	}
	dir, err := os.MkdirTemp("", "verge-lab-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a directory for the program:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // temporary
	// Instances run the program, as users of their own.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		fmt.Fprintln(os.Stderr, "opening the directory of the program:", err)
		return 1
	}
	if err := look(); err != nil {
		fmt.Fprintln(os.Stderr, "looking at the sources:", err)
		return 1
	}
	verge, tool = filepath.Join(dir, "verge"), filepath.Join(dir, "verge-lab")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", dir, "./cmd/verge", "./cmd/verge-lab")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building cmd/verge and cmd/verge-lab: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// look makes go test see what the program is built from. Otherwise it would take an
// old result for that of a changed program.
func look() error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" && d.Name() != "go.mod" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
}

// Verge is the program that runs in hosts.
func Verge() string { return verge }

// Tool is verge-lab, which is the switch.
func Tool() string { return tool }

// Need skips where there can be no lab; never in CI.
func Need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes namespaces and starts processes")
	}
	err := lab.Possible()
	if err == nil {
		if out, xerr := exec.Command(filepath.Join(root, "tools", "needs"), "nft").CombinedOutput(); xerr != nil {
			err = fmt.Errorf("nft is missing: %s", out)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("VERGE_CI_NO_SKIP") != "":
		t.Fatalf("there can be no lab: %v", err)
	default:
		t.Skipf("SKIPPED, nothing was tried in the lab: %v", err)
	}
}
