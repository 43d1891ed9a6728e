package e2e

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// onMachines makes a world, whose nodes are to be added, each on a machine of its
// own, which ends with the test owner.
func onMachines(owner *testing.T) *world {
	owner.Helper()
	w := emptyWorld(owner, memoryDir(owner))
	w.settle = func(name string) spot { return newMachine(owner, w.t, name) }
	return w
}

// machine of a node.
func (w *world) machine(name string) *machine {
	w.t.Helper()
	m, ok := w.spots[name].(*machine)
	if !ok {
		w.t.Fatalf("%s has no machine of its own", name)
	}
	return m
}

// memoryDir is a temporary directory in memory: many worlds that write to the
// same disk would wait for each other. To be there after a crash of processes is
// all that is asked of it.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir := newDir(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+sizeOfDisk); err != nil {
		t.Fatalf("mounting memory: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("something still uses %s: %v", dir, err)
		}
	})
	return dir
}

// needMachines skips the test where machines with networks of their own cannot
// be made; never in CI.
func needMachines(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	err := whyNoMachines()
	switch {
	case err == nil:
	case os.Getenv("VERGE_CI_NO_SKIP") != "":
		t.Fatalf("machines with networks of their own cannot be made: %v", err)
	default:
		t.Skipf("SKIPPED, failures of links were not tried: machines with networks of their own cannot be made: %v", err)
	}
}
