package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// inside is set in the environment of a run in a network namespace of its own.
const inside = "VERGE_FOOTPRINT_INSIDE"

// isolated runs this program once more in a network namespace of its own, where the
// rights suffice; done says that it did, and code how that ended.
func isolated() (code int, done bool) {
	if os.Geteuid() != 0 {
		return 0, false
	}
	if os.Getenv(inside) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "footprint: switching the loopback on: %v: %s", err, out)
			return 1, true
		}
		return 0, false
	}
	// Ctrl-C comes to both.
	signal.Ignore(os.Interrupt)
	c := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec // ourselves
	c.Args[0] = os.Args[0]
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	err := c.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), true
	}
	fmt.Fprintln(os.Stderr, "footprint: no network of its own:", err)
	signal.Reset(os.Interrupt)
	return 0, false
}
