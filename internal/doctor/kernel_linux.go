package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernel looks at limits that every role has.
func kernel() []Finding {
	const check, enough = "open files", 4096
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return nil
	}
	// Go raises the soft limit to the hard one by itself.
	if lim.Max < enough {
		return []Finding{bad(Warn, check, pageRun, "raise it: LimitNOFILE=1048576 in the unit, or ulimit -Hn",
			"at most %d at a time: each connection takes one or two", lim.Max)}
	}
	return []Finding{ok(check, "up to %d", lim.Max)}
}

// workerKernel looks at what only workers use.
func workerKernel() []Finding {
	return []Finding{controlGroups(), features()}
}

// controlGroups says where limits would be enforced.
func controlGroups() Finding {
	const check = "control groups"
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return bad(Warn, check, pageNeeds, "mount /proc", "%v", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return bad(Warn, check, pageNeeds, "use a kernel with control groups", "%v", err)
	}
	v1, v2 := map[string]string{}, ""
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			v2 = f[1]
		case "cgroup":
			for _, opt := range strings.Split(f[3], ",") {
				if opt == "cpu" || opt == "memory" {
					v1[opt] = f[1]
				}
			}
		}
	}
	group := map[string]string{}
	for line := range strings.Lines(string(own)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			for _, c := range strings.Split(f[1], ",") {
				group[c] = f[2]
			}
		}
	}
	writable := func(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }
	if len(v1) == 2 {
		var lacks []string
		for _, c := range []string{"cpu", "memory"} {
			if !writable(filepath.Join(v1[c], group[c])) && !writable(v1[c]) {
				lacks = append(lacks, c)
			}
		}
		if lacks == nil {
			return ok(check, "version 1: cpu and memory limits can be enforced")
		}
		return bad(Warn, check, pageNeeds, "run the worker as root",
			"version 1, and groups for %s cannot be made: limits are only counted when placing",
			strings.Join(lacks, " and "))
	}
	if v2 == "" {
		return bad(Warn, check, pageNeeds, "mount them: mount -t cgroup2 none /sys/fs/cgroup",
			"none are mounted: limits are only counted when placing")
	}
	dir := filepath.Join(v2, group[""])
	have, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return bad(Warn, check, pageNeeds, "run the worker in the host's namespace of control groups",
			"version 2, and its own group cannot be read: %v", err)
	}
	list := strings.Fields(string(have))
	if !slices.Contains(list, "memory") || !slices.Contains(list, "cpu") {
		return bad(Warn, check, pageNeeds, "enable them for this group (systemd: Delegate=yes)",
			"version 2, with the controllers: %s: limits are only counted when placing", orNone(list))
	}
	if !writable(dir) {
		return bad(Warn, check, pageNeeds, "let systemd delegate them: Delegate=yes in the unit",
			"version 2, and groups cannot be made: limits are only counted when placing")
	}
	return ok(check, "version 2: cpu and memory limits can be enforced")
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

// features are there for later versions; nothing needs them today.
func features() Finding {
	var have, not []string
	note := func(name string, there bool) {
		if there {
			have = append(have, name)
		} else {
			not = append(not, name)
		}
	}
	exists := func(path string) bool { _, err := os.Stat(path); return err == nil }
	fs, _ := os.ReadFile("/proc/filesystems") // without it nothing is known, as if nothing were there
	netfilter := false
	if fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER); err == nil {
		netfilter = true
		_ = unix.Close(fd) // nothing was sent
	}
	note("nftables", netfilter)
	note("tun", exists("/dev/net/tun"))
	note("wireguard", exists("/sys/module/wireguard"))
	note("overlayfs", strings.Contains(string(fs), "\toverlay\n"))
	note("kvm", exists("/dev/kvm"))
	text := "has " + orNone(have)
	if len(not) > 0 {
		text += "; has not " + strings.Join(not, " ")
	}
	return Finding{Check: "kernel", Status: OK, Detail: text}
}

// fileSystem says how many bytes an ordinary user may still write at dir, and, if
// what is there is gone with the machine's next start, what it is.
func fileSystem(dir string) (free int64, volatile string, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, "", fmt.Errorf("the file system of %s: %w", dir, err)
	}
	switch int64(st.Type) { //nolint:unconvert // Type is of other types on other machines
	case unix.TMPFS_MAGIC:
		volatile = "a tmpfs"
	case unix.RAMFS_MAGIC:
		volatile = "a ramfs"
	}
	return int64(st.Bavail) * int64(st.Bsize), volatile, nil //nolint:unconvert // Bsize too
}
