package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	// As the driver of containers does: its protocol is gRPC.
	containerd "github.com/containerd/containerd/v2/client"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/hostnet"
)

const (
	checkContainers, pageContainers = "containers", "docs/containers.md#what-it-needs"
	defaultContainerd               = "/run/containerd/containerd.sock"
	containerdWithin                = 3 * time.Second
)

// containers looks at what services with runtime: container need, which wait where
// it is not there.
func (n Node) containers(ctx context.Context) Finding {
	socket := strings.TrimPrefix(n.Containerd, "unix://")
	if socket == "" {
		socket = defaultContainerd
	}
	none := func(s Status, remedy, format string, args ...any) Finding {
		return bad(s, checkContainers, pageContainers, remedy, "%s: services with runtime: container wait for it",
			fmt.Sprintf(format, args...))
	}
	if os.Geteuid() != 0 {
		return none(Note, "run the worker as root", "this is not root, which containers need")
	}
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return none(Note, "apt-get install containerd (it brings runc), or name its socket with --containerd; or "+
			"nothing, if there are to be no containers", "there is no containerd at %s", socket)
	}
	program, err := runcVersion(ctx)
	if err != nil {
		return none(Warn, "apt-get install runc", "there is no runc that works (%v)", err)
	}
	ctx, cancel := context.WithTimeout(ctx, containerdWithin)
	defer cancel()
	knock, err := (&net.Dialer{}).DialContext(ctx, "unix", socket) // whose errors are shorter than those of gRPC
	if err != nil {
		return none(Warn, "systemctl start containerd; journalctl -u containerd says why it ended",
			"containerd does not answer: %v", err)
	}
	_ = knock.Close() // nothing was written
	c, err := containerd.New(socket, containerd.WithDefaultNamespace("verge"), containerd.WithTimeout(containerdWithin))
	if err != nil {
		return none(Warn, "systemctl start containerd; journalctl -u containerd says why it ended",
			"containerd at %s does not answer: %v", socket, err)
	}
	defer c.Close() //nolint:errcheck // nothing was written
	v, err := c.Version(ctx)
	if err != nil {
		return none(Warn, "systemctl start containerd; journalctl -u containerd says why it ended",
			"containerd at %s does not answer: %v", socket, err)
	}
	files := "overlayfs"
	if answer, err := c.IntrospectionService().Plugins(ctx,
		`type==io.containerd.snapshotter.v1,id==overlayfs`); err == nil {
		if len(answer.Plugins) == 0 {
			return none(Warn, "take overlayfs out of disabled_plugins in /etc/containerd/config.toml",
				"containerd %s has no snapshotter overlayfs", v.Version)
		}
		if e := answer.Plugins[0].InitErr; e != nil {
			return none(Warn, "put containerd's root on ext4 or xfs, and load the module overlay",
				"containerd's snapshotter overlayfs does not work: %s", e.Message)
		}
	}
	text := fmt.Sprintf("containerd %s at %s, snapshotter %s, %s, control groups %s",
		strings.TrimPrefix(v.Version, "v"), socket, files, program, groupsVersion())
	if !hostnet.Capable(unix.CAP_SYS_RESOURCE) && protected() {
		return bad(Note, checkContainers, pageContainers, "nothing, or give the worker CAP_SYS_RESOURCE",
			"%s; without CAP_SYS_RESOURCE oom_score_adj can't be changed: containers are protected as this process "+
				"is when memory runs out", text)
	}
	return ok(checkContainers, "%s", text)
}

// protected says whether the kernel would rather end others than this process.
func protected() bool {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	return err == nil && strings.TrimSpace(string(b)) != "0"
}

// groupsVersion is which control groups runc meets.
func groupsVersion() string {
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return "not mounted"
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return "v2"
	}
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err == nil {
		return "v1 and v2"
	}
	return "v1"
}

// runcVersion is "runc 1.1.5".
func runcVersion(ctx context.Context) (string, error) {
	path, err := exec.LookPath("runc")
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(dir + "/runc")
	}
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, containerdWithin)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // found above
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.Replace(first, " version ", " ", 1), nil
}
