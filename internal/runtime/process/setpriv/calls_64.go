//go:build linux && !386 && !arm

package setpriv

import "syscall"

const (
	sysSetgroups = syscall.SYS_SETGROUPS
	sysSetresgid = syscall.SYS_SETRESGID
	sysSetresuid = syscall.SYS_SETRESUID
)
