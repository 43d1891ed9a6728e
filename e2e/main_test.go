package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// programs are the binaries under test, built once.
var programs struct {
	dir   string // that instances find the test program in
	verge string
}

// TestMain builds what the tests run.
func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "verge-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a directory for the programs:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // temporary
	programs.dir, programs.verge = dir, filepath.Join(dir, "verge")
	for _, b := range [][2]string{
		{programs.verge, "../cmd/verge"},
		{filepath.Join(dir, "testprogram"), "./testprogram"},
	} {
		if out, err := exec.Command("go", "build", "-o", b[0], b[1]).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", b[1], err, out)
			return 1
		}
	}
	return m.Run()
}
