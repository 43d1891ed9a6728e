package hostnet

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Rights is an error where this process may not make network namespaces and rules.
func Rights() error {
	switch {
	case Capable(unix.CAP_NET_ADMIN) && Capable(unix.CAP_SYS_ADMIN):
		return nil
	case os.Geteuid() != 0:
		return errors.New("the worker is not root")
	}
	return errors.New("the worker has not all rights of root (CAP_NET_ADMIN and CAP_SYS_ADMIN)")
}

// Capable says whether this process has a capability.
func Capable(c int) bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "CapEff:")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	set, err := strconv.ParseUint(word, 16, 64)
	return err == nil && set&(1<<c) != 0
}
