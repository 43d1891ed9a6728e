package onthread

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Do runs f on a thread of its own. Goroutines that f starts run elsewhere.
func Do(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if unix.Gettid() == unix.Getpid() {
			defer runtime.UnlockOSThread() // held until another thread has done it
			done <- Do(f)
			return
		}
		done <- f()
	}()
	return <-done
}

// InNetwork runs f in the network namespace at path: the sockets and devices that f makes
// belong to it.
func InNetwork(path string, f func() error) error {
	ns, err := os.Open(path) //nolint:gosec // a namespace that the caller has made
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer func() { _ = ns.Close() }() // nothing was written
	return Do(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", path, err)
		}
		return f()
	})
}
