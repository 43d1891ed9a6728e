package doctor

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// network looks at what the service network needs of the kernel and of the rights
// of this process. A worker does without it where something is not there.
func network() []Finding {
	var lacks, remedies []string
	lack := func(there bool, what, remedy string) {
		if !there {
			lacks, remedies = append(lacks, what), append(remedies, remedy)
		}
	}
	lack(capable(unix.CAP_NET_ADMIN) && capable(unix.CAP_SYS_ADMIN), "the rights of root", "run the worker as root")
	lack(module("nf_tables"), "nftables", "modprobe nf_tables")
	lack(module("veth"), "veth devices", "modprobe veth")
	_, err := os.Stat("/dev/net/tun")
	lack(err == nil, "/dev/net/tun", "modprobe tun")
	if len(lacks) > 0 {
		return []Finding{bad(Note, checkNetwork, pageNetwork, strings.Join(remedies, "; "),
			"only --network loopback works, where instances share the machine's network: there is no %s", strings.Join(lacks, ", no "))}
	}
	text := "instances can have addresses of their own; WireGuard in the kernel"
	if !module("wireguard") {
		text = "instances can have addresses of their own; WireGuard in the engine, which costs more processor time (modprobe wireguard)"
	}
	out := []Finding{ok(checkNetwork, "%s", text)}
	for _, s := range [][2]string{{"IPv4", "net/ipv4/ip_forward"}, {"IPv6", "net/ipv6/conf/all/forwarding"}} {
		if b, err := os.ReadFile(filepath.Join("/proc/sys", s[1])); err == nil && strings.TrimSpace(string(b)) == "0" {
			out = append(out, bad(Note, "forwarding of "+s[0], pageNetwork, "nothing, unless something turns it off again: sysctl "+strings.ReplaceAll(s[1], "/", ".")+"=1",
				"it is off; a worker with the service network turns it on"))
		}
	}
	return out
}

// capable says whether this process has a capability.
func capable(c int) bool {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), "CapEff:")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	set, err := strconv.ParseUint(word, 16, 64)
	return err == nil && set&(1<<c) != 0
}

// module says whether the kernel has a module, loaded, built in, or to be loaded.
func module(name string) bool {
	if _, err := os.Stat("/sys/module/" + name); err == nil {
		return true
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return false
	}
	for _, file := range []string{"modules.builtin", "modules.dep"} {
		if b, err := os.ReadFile(filepath.Join("/lib/modules", filepath.Base(strings.TrimSpace(string(release))), file)); err == nil && strings.Contains(string(b), "/"+name+".ko") {
			return true
		}
	}
	// What is built in without parameters is in neither.
	f, err := os.Open("/proc/config.gz")
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // nothing was written
	z, err := gzip.NewReader(f)
	if err != nil {
		return false
	}
	const most = 8 << 20
	option := "CONFIG_" + strings.ToUpper(name) + "=y"
	if queue, ok := strings.CutPrefix(name, "sch_"); ok {
		option = "CONFIG_NET_SCH_" + strings.ToUpper(queue) + "=y"
	}
	for lines := bufio.NewScanner(io.LimitReader(z, most)); lines.Scan(); {
		if lines.Text() == option {
			return true
		}
	}
	return false
}
