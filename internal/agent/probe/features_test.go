package probe

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFeatures(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing": {nil, ""},
		"all": {map[string]string{
			"sys/fs/cgroup/cgroup.controllers": "cpu memory", "dev/kvm": "",
			"sys/module/nf_tables/refcnt": "1", "sys/module/wireguard/refcnt": "1",
		}, "cgroup2 kvm nftables wireguard"},
		"modules to be loaded": {map[string]string{
			"proc/sys/kernel/osrelease": "6.1.0-9\n", "lib/modules/6.1.0-9/modules.dep": "kernel/net/netfilter/nf_tables.ko.xz: kernel/x.ko\n",
			"lib/modules/6.1.0-9/modules.builtin": "kernel/drivers/net/wireguard/wireguard.ko\n",
		}, "nftables wireguard"},
		"built in": {map[string]string{"proc/config.gz": "CONFIG_WIREGUARD=m\n# CONFIG_X is not set\nCONFIG_NF_TABLES=y\n"}, "nftables"},
		"modules of another kernel": {map[string]string{
			"proc/sys/kernel/osrelease": "6.1.0-9\n", "lib/modules/5.0/modules.dep": "kernel/net/netfilter/nf_tables.ko:\n",
		}, ""},
	} {
		root := t.TempDir()
		for path, text := range tc.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, ".gz") {
				z := gzip.NewWriter(f)
				_, err = z.Write([]byte(text))
				if err == nil {
					err = z.Close()
				}
			} else {
				_, err = f.WriteString(text)
			}
			if err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(Features(root), " "); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
