//go:build linux && (386 || arm)

package setpriv

import "syscall"

// The calls of these machines that know users beyond 65535.
const (
	sysSetgroups = syscall.SYS_SETGROUPS32
	sysSetresgid = syscall.SYS_SETRESGID32
	sysSetresuid = syscall.SYS_SETRESUID32
)
