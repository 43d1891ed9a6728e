package doctor

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/wire"
)

// network looks at what the service network needs: of the kernel, of the rights of
// this process, and of others on this machine. With auto a worker does without it
// where something is not there.
func (n Node) network() []Finding {
	if n.Network == wire.NetworkLoopback {
		return []Finding{ok(checkNetwork, "not asked for (--network loopback): instances share the machine's network")}
	}
	var lacks, remedies []string
	lack := func(there bool, what, remedy string) {
		if !there {
			lacks, remedies = append(lacks, "there is no "+what), append(remedies, remedy)
		}
	}
	lack(hostnet.Rights() == nil, "right to make it, which root has", "run the worker as root")
	lack(module("nf_tables"), "nftables", "modprobe nf_tables")
	lack(module("veth"), "veth device", "modprobe veth")
	_, err := os.Stat("/dev/net/tun")
	lack(err == nil, "/dev/net/tun", "modprobe tun")
	_, err = os.Stat("/proc/sys/net/ipv6")
	lack(err == nil, "IPv6 in this kernel", "start it without ipv6.disable=1")
	who, has := claim.Holder()
	own := has && n.holds(who)
	if has && !own {
		lacks, remedies = append(lacks, "one worker of a machine can have it, and "+who+" has it"),
			append(remedies, "start this one with --network loopback")
	}
	if filters, err := hostnet.Filters(); err == nil { // who may not look has no right to make it either
		for _, f := range filters {
			lacks, remedies = append(lacks, f.String()), append(remedies, f.Remedy())
		}
	}
	if len(lacks) > 0 {
		status, text := Note, "a worker that is started now goes without it, and instances share the machine's "+
			"network (loopback): "
		if own || n.Network == wire.NetworkOverlay {
			status, text = Warn, "instances will not work as they should: "
		}
		return []Finding{bad(status, checkNetwork, pageNetwork, strings.Join(remedies, "; "), "%s%s", text,
			strings.Join(lacks, "; "))}
	}
	text := "instances can have addresses of their own; WireGuard in the kernel"
	if !module("wireguard") {
		text = "instances can have addresses of their own; WireGuard in the engine, which costs more processor time " +
			"(modprobe wireguard)"
	}
	out := []Finding{ok(checkNetwork, "%s", text)}
	for _, s := range [][2]string{{"IPv4", "net/ipv4/ip_forward"}, {"IPv6", "net/ipv6/conf/all/forwarding"}} {
		if b, err := os.ReadFile(filepath.Join("/proc/sys", s[1])); err == nil && strings.TrimSpace(string(b)) == "0" {
			out = append(out, bad(Note, "forwarding of "+s[0], pageNetwork,
				"nothing, unless something turns it off again: sysctl "+strings.ReplaceAll(s[1], "/", ".")+"=1",
				"it is off; a worker with the service network turns it on"))
		}
	}
	return out
}

// holds says whether the holder of the service network is this worker.
func (n Node) holds(who string) bool {
	dir, err := filepath.Abs(n.Dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return err == nil && strings.Contains(who, ", in "+dir+",")
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
		if b, err := os.ReadFile(filepath.Join("/lib/modules", filepath.Base(strings.TrimSpace(string(release))),
			file)); err == nil && strings.Contains(string(b), "/"+name+".ko") {
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
