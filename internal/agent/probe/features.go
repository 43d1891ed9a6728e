package probe

import (
	"bufio"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Features names what the kernel of this machine has of what instances may want
// one day: "cgroup2", "kvm", "nftables", "wireguard". It is looked for and not
// used: a module that is there and not loaded counts. root is "/", or a folder
// that stands for it.
func Features(root string) []string {
	at := func(path string) string { return filepath.Join(root, path) }
	var list []string
	if exists(at("sys/fs/cgroup/cgroup.controllers")) {
		list = append(list, "cgroup2")
	}
	if f, err := os.OpenFile(at("dev/kvm"), os.O_RDWR, 0); err == nil {
		_ = f.Close() // nothing was written
		list = append(list, "kvm")
	}
	// What is built in without parameters is not among the loaded modules.
	var release string
	if b, err := os.ReadFile(at("proc/sys/kernel/osrelease")); err == nil {
		release = filepath.Base(strings.TrimSpace(string(b)))
	}
	for _, m := range modules {
		if exists(at("sys/module/" + m.name)) {
			list = append(list, m.feature)
		}
		for _, file := range [...]string{"modules.builtin", "modules.dep"} {
			if mentions(at(filepath.Join("lib/modules", release, file)), "/"+m.name+".ko") {
				list = append(list, m.feature)
			}
		}
		if mentions(at("proc/config.gz"), m.config+"=y") {
			list = append(list, m.feature)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var modules = [...]struct{ feature, name, config string }{
	{"nftables", "nf_tables", "CONFIG_NF_TABLES"},
	{"wireguard", "wireguard", "CONFIG_WIREGUARD"},
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// maxFeatureFile bounds what is read of a file that lists modules or options.
const maxFeatureFile = 8 << 20

// mentions says whether a line of a file, which may be compressed, has a text.
func mentions(path, text string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // nothing was written
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return false
		}
	}
	for lines := bufio.NewScanner(io.LimitReader(r, maxFeatureFile)); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return true
		}
	}
	return false
}
