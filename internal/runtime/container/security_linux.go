package container

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/runtime"
)

// tmpBytes bounds what a container whose root is read only may have in its /tmp. It
// counts as memory of the container.
const tmpBytes = 64 << 20

// secure bounds what a container may do, before the list of its system calls is made,
// which goes by its capabilities.
func secure(spec *specs.Spec, s runtime.Security) {
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

// tmp is the /tmp of a container whose root is read only, where nobody mounts another.
// What the image has there is copied into it.
func tmp(s runtime.Spec, image *picture) []specs.Mount {
	if s.Container.Security.WritableRoot {
		return nil
	}
	for _, m := range s.Container.Mounts {
		if m.Target == "/tmp" {
			return nil
		}
	}
	options := []string{"nosuid", "nodev", "mode=1777", fmt.Sprintf("size=%d", tmpBytes)}
	if !image.emptyTmp {
		options = append(options, "tmpcopyup")
	}
	return []specs.Mount{{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: options}}
}

// withSeccomp forbids the system calls that no ordinary program needs, where the
// kernel can. runc takes a third of a start to translate that for each architecture
// that the machine knows; those of 32 bits are left out, and so forbidden, where the
// image has no use for them.
func withSeccomp(narrow, none bool) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, made *containers.Container, spec *specs.Spec) error {
		if _, err := os.Stat("/proc/sys/kernel/seccomp"); err != nil || none {
			return nil //nolint:nilerr // an old kernel
		}
		if err := seccomp.WithDefaultProfile()(ctx, c, made, spec); err != nil {
			return err
		}
		if own, ok := ownArch[goruntime.GOARCH]; ok && narrow {
			spec.Linux.Seccomp.Architectures = []specs.Arch{own}
		}
		return nil
	}
}

// ownArch are the machines that execute programs of another architecture, too.
var ownArch = map[string]specs.Arch{"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64}
