package cgroup

import (
	"reflect"
	"testing"
)

func TestParseMounts(t *testing.T) {
	for _, c := range []struct {
		name, mountinfo, self string
		want                  []mount
	}{
		{
			"version 2 under systemd",
			"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
			"0::/system.slice/verge.service\n",
			[]mount{{point: "/sys/fs/cgroup", v2: true, own: "/sys/fs/cgroup/system.slice/verge.service"}},
		},
		{
			"version 1, controllers mounted together",
			"31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
				"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpu,cpuacct\n" +
				"33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"34 31 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"35 31 0:32 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
			"9:memory:/user.slice\n3:cpu,cpuacct:/\n1:name=systemd:/user.slice/x\n",
			[]mount{
				{point: "/sys/fs/cgroup/cpu,cpuacct", own: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"cpu", "cpuacct"}},
				{point: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory/user.slice", controllers: []string{"memory"}},
			},
		},
		{
			"a container sees its own group as the top",
			"33 31 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" +
				"34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"4:memory:/docker/abc/sub\n0::/../other\n",
			[]mount{
				{point: "/sys/fs/cgroup/memory", own: "/sys/fs/cgroup/memory/sub", controllers: []string{"memory"}},
				{point: "/sys/fs/cgroup/unified", v2: true, own: "/sys/fs/cgroup/unified"},
			},
		},
		{
			"spaces, a second mount, other file systems, broken lines",
			"1 2 0:3 / /mnt/a\\040b rw - cgroup cgroup rw,pids\n" +
				"1 2 0:3 / /mnt/again rw - cgroup cgroup rw,pids\n" +
				"1 2 8:1 / / rw - ext4 /dev/sda rw\n\nnonsense\n1 - cgroup\n",
			"nonsense\n8:pids:/\n",
			[]mount{{point: "/mnt/a b", own: "/mnt/a b", controllers: []string{"pids"}}},
		},
		{"nothing", "", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := parseMounts(c.mountinfo, c.self)
			if len(got) == 0 && len(c.want) == 0 {
				return
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for _, c := range [][4]string{
		{"/cg", "/", "/", "/cg"},
		{"/cg", "/", "/a/b", "/cg/a/b"},
		{"/cg", "/a", "/a", "/cg"},
		{"/cg", "/a", "/a/b", "/cg/b"},
		{"/cg", "/a", "/ab", "/cg"}, // a neighbour, not beneath
		{"/cg", "/a", "/", "/cg"},
		{"/cg", "/", "/../x", "/cg"},
		{"/cg", "/", "", "/cg"},
	} {
		if got := within(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("within(%q, %q, %q) = %q, want %q", c[0], c[1], c[2], got, c[3])
		}
	}
}

func TestSettings(t *testing.T) {
	all := Limits{CPUWeight: 500, CPULimit: 1500, Memory: 64 << 20, PIDs: 100}
	for _, c := range []struct {
		name string
		l    Limits
		v2   bool
		want map[string]string
	}{
		{"v2", all, true, map[string]string{
			"cpu.weight": "50", "cpu.max": "150000 100000", "memory.max": "67108864",
			"memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "100",
		}},
		{"v1", all, false, map[string]string{
			"cpu.shares": "512", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000",
			"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864", "pids.max": "100",
		}},
		{"v2, nothing asked for", Limits{}, true, map[string]string{"cpu.weight": "1"}},
		{"v1, nothing asked for", Limits{}, false, map[string]string{"cpu.shares": "2"}},
		{"v2, beyond the kernel's bounds", Limits{CPUWeight: 1 << 40, CPULimit: 1}, true,
			map[string]string{"cpu.weight": "10000", "cpu.max": "1000 100000"}},
		{"v1, beyond the kernel's bounds", Limits{CPUWeight: 1 << 40, CPULimit: 1}, false,
			map[string]string{"cpu.shares": "262144", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]string{}
			for _, s := range c.l.settings(c.v2) {
				got[s.file] = s.value
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}
