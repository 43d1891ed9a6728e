package e2e

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// programs are the binaries under test, built once.
var programs struct {
	dir   string // that instances find the test program in
	verge string
	lab   string // verge-lab
}

// TestMain builds what the tests run.
func TestMain(m *testing.M) { os.Exit(run(m)) }

// isolate gives this process a network of its own where it can. It may start the
// program again.
var isolate = func() error { return nil }

func run(m *testing.M) int {
	if err := isolate(); err != nil {
		fmt.Fprintln(os.Stderr, "isolating the tests:", err)
		return 1
	}
	if err := lookAtSources(); err != nil {
		fmt.Fprintln(os.Stderr, "looking at the sources:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "verge-e2e-bin-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "making a directory for the programs:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // temporary
	// Instances run as users of their own, who find the programs there.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, "opening the directory of the programs:", err)
		return 1
	}
	if err := manyAtOnce(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs.dir, programs.verge, programs.lab = dir, filepath.Join(dir, "verge"), filepath.Join(dir, "verge-lab")
	for _, b := range [][2]string{
		{programs.verge, "../cmd/verge"},
		{programs.lab, "../cmd/verge-lab"},
		{filepath.Join(dir, "testprogram"), "./testprogram"},
	} {
		if out, err := exec.Command("go", "build", "-ldflags", "-w", "-o", b[0], b[1]).CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building %s: %v\n%s", b[1], err, out)
			return 1
		}
	}
	return m.Run()
}

// worldsAtOnce is how many parallel tests run at the same time, if the command
// line does not say it: they wait much more than they compute.
const worldsAtOnce = 5

func manyAtOnce() error {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(worldsAtOnce))
}

// lookAtSources makes go test see what the programs are built from. Otherwise it
// would take an old result for that of a changed program.
func lookAtSources() error {
	return filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" && d.Name() != "go.mod" {
			return err
		}
		_, err = os.Stat(path)
		return err
	})
}
