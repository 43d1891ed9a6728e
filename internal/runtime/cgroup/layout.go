package cgroup

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// wanted are the controllers that groups use; cpuacct is version 1's meter.
var wanted = []string{"cpu", "cpuacct", "memory", "pids"}

// mount is one mounted hierarchy.
type mount struct {
	point string // where it is mounted
	v2    bool
	// own is the directory of our own group, point itself if it lies outside of
	// what is mounted.
	own string
	// controllers of a version 1 hierarchy, of those wanted.
	controllers []string
}

// parseMounts reads /proc/self/mountinfo and /proc/self/cgroup.
func parseMounts(mountinfo, selfCgroup string) []mount {
	ownV1 := map[string]string{} // by controller
	ownV2 := "/"
	for line := range strings.Lines(selfCgroup) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		if f[0] == "0" && f[1] == "" {
			ownV2 = f[2]
			continue
		}
		for c := range strings.SplitSeq(f[1], ",") {
			ownV1[c] = f[2]
		}
	}
	var out []mount
	for line := range strings.Lines(mountinfo) {
		// 31 23 0:28 root point options [optional …] - type source superoptions
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		root, point := unescape(f[3]), unescape(f[4])
		switch g[0] {
		case "cgroup2":
			out = append(out, mount{point: point, v2: true, own: within(point, root, ownV2)})
		case "cgroup":
			m := mount{point: point}
			for o := range strings.SplitSeq(g[2], ",") {
				if slices.Contains(wanted, o) {
					m.controllers = append(m.controllers, o)
				}
			}
			if len(m.controllers) > 0 {
				m.own = within(point, root, ownV1[m.controllers[0]])
				out = append(out, m)
			}
		}
	}
	// A controller may be mounted twice; the first mount is as good as any.
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(m mount) bool {
		key := "v2"
		if !m.v2 {
			key = strings.Join(m.controllers, ",")
		}
		dup := seen[key]
		seen[key] = true
		return dup
	})
}

// within translates a group's path in the hierarchy to a directory, given that
// root of the hierarchy is mounted at point.
func within(point, root, group string) string {
	rel, ok := strings.CutPrefix(group, strings.TrimSuffix(root, "/"))
	if !ok || strings.HasPrefix(rel, "/..") || (rel != "" && rel[0] != '/') {
		return point // another namespace's view
	}
	return path.Join(point, rel)
}

// unescape undoes the octal escapes of mountinfo (\040 is a space).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
