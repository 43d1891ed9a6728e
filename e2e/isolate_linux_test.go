package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// isolated says in the environment of the tests that they have a network and
// mounts of their own.
const isolated = "VERGE_E2E_ISOLATED"

func init() { isolate = intoNamespaces }

// intoNamespaces starts this program again, as the same process, with a network
// and a table of mounts of its own. No port of it meets one of another program,
// packets can be dropped without hurting anybody, and what is mounted or bridged
// goes with the process, however it ends. Without the rights for it nothing
// happens, and the tests that need it say so.
func intoNamespaces() error {
	if os.Getenv(isolated) != "" || os.Getuid() != 0 {
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return err
	}
	// What a new network needs, of this thread alone; executing a program ends
	// the others.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		runtime.UnlockOSThread()
		fmt.Fprintln(os.Stderr, "the tests have no network of their own:", err)
		return nil
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to ourselves: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	return syscall.Exec(path, os.Args, append(os.Environ(), isolated+"=1"))
}

// loopbackUp switches on the loopback of the calling thread's network.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switching the loopback on: %w", err)
	}
	defer func() { _ = unix.Close(s) }() // nothing was sent
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, r); err != nil {
		return fmt.Errorf("switching the loopback on: %w", err)
	}
	return nil
}

// whyNoMachines says why there can be no machines with networks of their own
// here; nil if there can. What is missing and can be installed is.
func whyNoMachines() error {
	if os.Getenv(isolated) == "" {
		return errors.New("they need root, and the right to make network namespaces")
	}
	tool, err := filepath.Abs("../tools/needs")
	if err != nil {
		return err
	}
	if out, err := exec.Command(tool, "ip", "nft").CombinedOutput(); err != nil {
		return fmt.Errorf("ip or nft is missing: %s", out)
	}
	return nil
}
