package ocispec

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// TmpBytes bounds what a container whose root is read only may have in its /tmp. It
// counts as memory of the container.
const TmpBytes = 64 << 20

// Secure bounds what a container may do, before the list of its system calls is made,
// which goes by its capabilities.
func Secure(spec *specs.Spec, s runtime.Security) {
	p := spec.Process
	p.NoNewPrivileges = !s.NewPrivileges
	caps := marked(s.Capabilities)
	p.Capabilities = &specs.LinuxCapabilities{Bounding: caps, Permitted: caps, Effective: caps}
	if extra := marked(s.Extra); p.User.UID != 0 && len(extra) > 0 {
		// Else the kernel would take them from it when it executes its program.
		p.Capabilities.Inheritable, p.Capabilities.Ambient = extra, extra
	}
	spec.Root.Readonly = !s.WritableRoot
}

// marked are capabilities by the names that runc has for them.
func marked(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "CAP_" + n
	}
	return out
}

// Tmp is the /tmp of a container whose root is read only, where nobody mounts another.
// What the image has there is copied into it.
func Tmp(s runtime.Spec, image *imagestore.Resolved) []specs.Mount {
	if s.Container.Security.WritableRoot {
		return nil
	}
	for _, m := range s.Container.Mounts {
		if m.Target == "/tmp" {
			return nil
		}
	}
	options := []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", TmpBytes)}
	if !image.EmptyTmp {
		options = append(options, "tmpcopyup")
	}
	return []specs.Mount{{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: options}}
}

// WithSeccomp forbids the system calls that no ordinary program needs, where the
// kernel can. runc takes a third of a start to translate that for each architecture
// that the machine knows; those of 32 bits are left out, and so forbidden, where the
// image has no use for them.
func WithSeccomp(narrow, none bool) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, made *containers.Container, spec *specs.Spec) error {
		if _, err := os.Stat("/proc/sys/kernel/seccomp"); err != nil || none {
			return nil //nolint:nilerr // an old kernel
		}
		if err := seccomp.WithDefaultProfile()(ctx, c, made, spec); err != nil {
			return err
		}
		if own, ok := ownArch[goruntime.GOARCH]; ok && narrow {
			spec.Linux.Seccomp.Architectures = []specs.Arch{own}
			withoutOld(spec.Linux.Seccomp)
		}
		return nil
	}
}

// ownArch are the architectures whose machines also run programs of a 32-bit one.
var ownArch = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}

// oldCalls are the system calls of the list that only 32-bit architectures have.
var oldCalls = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, name := range strings.Fields(oldNames) {
		out[name] = true
	}
	return out
})

const oldNames = `
_llseek _newselect chown32 clock_adjtime64 clock_getres_time64 clock_gettime64 clock_nanosleep_time64
fadvise64_64 fchown32 fcntl64 fstat64 fstatat64 fstatfs64 ftruncate64 futex_time64 getegid32 geteuid32
getgid32 getgroups32 getresgid32 getresuid32 getuid32 io_pgetevents_time64 ipc lchown32 lstat64 mmap2
mq_timedreceive_time64 mq_timedsend_time64 ppoll_time64 pselect6_time64 recv recvmmsg_time64
rt_sigtimedwait_time64 sched_rr_get_interval_time64 semtimedop_time64 send sendfile64 setfsgid32 setfsuid32
setgid32 setgroups32 setregid32 setresgid32 setresuid32 setreuid32 setuid32 sigprocmask sigreturn socketcall
stat64 statfs64 timer_gettime64 timer_settime64 timerfd_gettime64 timerfd_settime64 truncate64 ugetrlimit
utimensat_time64 waitpid`

// withoutOld leaves oldCalls out: they have no effect on machines of ownArch, and runc writes,
// reads and looks up each name several times in a start.
func withoutOld(list *specs.LinuxSeccomp) {
	old := oldCalls()
	for i := range list.Syscalls {
		list.Syscalls[i].Names = slices.DeleteFunc(list.Syscalls[i].Names, func(n string) bool { return old[n] })
	}
	list.Syscalls = slices.DeleteFunc(list.Syscalls, func(s specs.LinuxSyscall) bool { return len(s.Names) == 0 })
}
