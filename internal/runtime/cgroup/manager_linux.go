package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix" // getxattr: systemd marks a delegated group with one

	"github.com/verge-edge/verge/internal/wire"
)

// root is the name beneath which everything of Verge lies; leaf is where a
// delegated group's own processes are moved, because in version 2 a group with
// controlled children may have none itself.
const (
	rootName = "verge"
	leafName = "verge-supervisor"
)

// parent is where groups are made in one hierarchy.
type parent struct {
	mount
	dir string // …/verge/<hash>
}

// Manager makes and finds the groups of one base name.
type Manager struct {
	hash    string
	mounts  []mount  // all, to understand paths of groups made elsewhere
	parents []parent // where we may make groups
	missing string
	tops    func() []string // where hierarchies are mounted
}

// Detect looks at the machine and prepares the parents of groups; base is
// usually the engine's data directory. It never fails: see Missing.
func Detect(base string) *Manager {
	return detect(base, func(mount) bool { return true })
}

// DetectV2 uses version 2 alone, also where version 1 has the controllers: it
// lets tests on such a machine see the other half.
func DetectV2(base string) *Manager {
	return detect(base, func(m mount) bool { return m.v2 })
}

func detect(base string, want func(mount) bool) *Manager {
	return detectIn(base, func(m mount) (mount, bool) { return m, want(m) })
}

// detectIn uses what want returns of the hierarchies that it wants.
func detectIn(base string, want func(mount) (mount, bool)) *Manager {
	m := newManager(base)
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	self, err2 := os.ReadFile("/proc/self/cgroup")
	if err := errors.Join(err, err2); err != nil {
		m.missing = "no control groups (" + explain(err) + "): limits are not enforced"
		return m
	}
	var mounts []mount
	for _, mt := range parseMounts(string(mountinfo), string(self)) {
		if mt, ok := want(mt); ok {
			mounts = append(mounts, mt)
		}
	}
	m.use(mounts)
	return m
}

// Disabled is a Manager that makes no groups.
func Disabled(base string) *Manager {
	m := newManager(base)
	m.missing = "control groups are switched off: limits are not enforced"
	return m
}

func newManager(base string) *Manager {
	return &Manager{hash: wire.Mark(base)[:12], tops: sync.OnceValue(readTops)}
}

// use prepares a parent in each hierarchy that has a wanted controller. The
// controllers of version 2 are used for what version 1 does not have; without
// any, version 2 is used only where there is no version 1 at all.
func (m *Manager) use(mounts []mount) {
	m.mounts = mounts
	var reasons []string
	have := map[string]bool{}
	for _, mt := range mounts {
		if mt.v2 {
			continue
		}
		dir := filepath.Join(mt.own, rootName, m.hash)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			reasons = append(reasons, explain(err))
			continue
		}
		for _, c := range mt.controllers {
			have[c] = true
		}
		m.parents = append(m.parents, parent{mount: mt, dir: dir})
	}
	for _, mt := range mounts {
		if !mt.v2 || len(m.parents) > 0 && !offers(mt, have) {
			continue
		}
		p, err := m.prepareV2(mt)
		if err != nil {
			reasons = append(reasons, explain(err))
			continue
		}
		p.controllers = slices.DeleteFunc(p.controllers, func(c string) bool { return have[c] })
		for _, c := range p.controllers {
			have[c] = true
		}
		m.parents = append(m.parents, p)
	}
	m.missing = describeMissing(have, len(mounts) > 0, reasons)
}

// offers says whether a version 2 hierarchy has a wanted controller that we do
// not have yet.
func offers(mt mount, have map[string]bool) bool {
	b, err := os.ReadFile(filepath.Join(mt.own, "cgroup.controllers"))
	return err == nil && slices.ContainsFunc(strings.Fields(string(b)), func(c string) bool {
		return slices.Contains(wanted, c) && !have[c]
	})
}

// describeMissing words what cannot be enforced.
func describeMissing(have map[string]bool, mounted bool, reasons []string) string {
	why := "the kernel or its administrator has not enabled them"
	switch {
	case len(reasons) > 0:
		why = reasons[0] // the others are the same in another hierarchy
	case !mounted:
		why = "none is mounted"
	}
	var lost []string
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !have[c] {
			lost = append(lost, c)
		}
	}
	switch len(lost) {
	case 0:
		return ""
	case 3:
		return "no control groups (" + why + "): limits are not enforced"
	}
	return fmt.Sprintf("no %s control group (%s): limits of %s are not enforced",
		strings.Join(lost, ", "), why, strings.Join(lost, ", "))
}

func explain(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return fmt.Sprintf("%v on %s", pe.Err, pe.Path)
	}
	return err.Error()
}

// prepareV2 makes the parent in a version 2 hierarchy: beneath our own group if
// it was delegated, else beneath the top.
func (m *Manager) prepareV2(mt mount) (parent, error) {
	var errs []error
	for _, top := range v2Tops(mt) {
		p, err := m.prepareV2Below(mt, top)
		if err == nil {
			return p, nil
		}
		errs = append(errs, err)
		// Leave nothing where we could not stay, unless it is in use.
		_ = os.Remove(filepath.Join(top, rootName, m.hash))
		_ = os.Remove(filepath.Join(top, rootName))
	}
	return parent{}, errs[len(errs)-1]
}

// v2Tops are the directories beneath which a parent may be, best first.
func v2Tops(mt mount) []string {
	own := mt.own
	if filepath.Base(own) == leafName {
		own = filepath.Dir(own) // an earlier engine of this service moved us here
	}
	if own != mt.point && delegated(own) {
		return []string{own, mt.point}
	}
	return []string{mt.point}
}

// delegated says that systemd handed the group to its service.
func delegated(dir string) bool {
	buf := make([]byte, 8)
	for _, attr := range []string{"trusted.delegate", "user.delegate"} {
		if n, err := unix.Getxattr(dir, attr, buf); err == nil && string(buf[:n]) == "1" {
			return true
		}
	}
	return false
}

func (m *Manager) prepareV2Below(mt mount, top string) (parent, error) {
	dir := filepath.Join(top, rootName, m.hash)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return parent{}, err
	}
	// Only the real top may have processes and controlled children. Of a
	// container, or of a delegated service, the top is an ordinary group.
	if _, err := os.Stat(filepath.Join(top, "cgroup.type")); err == nil && top == mt.own {
		if err := vacate(top); err != nil {
			return parent{}, err
		}
	}
	for _, d := range []string{top, filepath.Dir(dir), dir} {
		for _, c := range wanted {
			// One by one: a missing controller must not stop the others. What holds
			// in the end is read below.
			_ = write(filepath.Join(d, "cgroup.subtree_control"), "+"+c)
		}
	}
	enabled, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return parent{}, err
	}
	p := parent{mount: mt, dir: dir}
	p.controllers = slices.DeleteFunc(strings.Fields(string(enabled)), func(c string) bool {
		return !slices.Contains(wanted, c)
	})
	return p, nil
}

// vacate moves the processes of dir into a leaf beneath it.
func vacate(dir string) error {
	leaf := filepath.Join(dir, leafName)
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	pids, err := readPIDs(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for _, pid := range pids {
		err := write(filepath.Join(leaf, "cgroup.procs"), fmt.Sprint(pid))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// Missing says what cannot be enforced and why, "" if nothing is missing.
func (m *Manager) Missing() string { return m.missing }

// Has says whether a controller ("cpu", "memory", "pids", "cpuacct") is at hand.
func (m *Manager) Has(controller string) bool {
	return slices.ContainsFunc(m.parents, func(p parent) bool { return slices.Contains(p.controllers, controller) })
}

// Close removes the parents if no group is left beneath them.
func (m *Manager) Close() {
	for _, p := range m.parents {
		// A group of ours or of another engine may be left: then it stays.
		_ = os.Remove(p.dir)
		_ = os.Remove(filepath.Dir(p.dir))
	}
}

// Create makes a group with limits. A name in use gets a suffix: what is left
// of an earlier task is never mixed with a new one.
func (m *Manager) Create(name string, l Limits) (*Group, error) {
	if len(m.parents) == 0 {
		return nil, ErrUnavailable
	}
	if !validName(name) {
		return nil, fmt.Errorf("control group: bad name %q", name)
	}
	for n := range 100 {
		try := name
		if n > 0 {
			try = fmt.Sprintf("%s~%d", name, n)
		}
		g, err := m.create(try, l)
		if !errors.Is(err, fs.ErrExist) {
			return g, err
		}
	}
	return nil, fmt.Errorf("control group %s and 99 more of that name are in use", name)
}

func (m *Manager) create(name string, l Limits) (*Group, error) {
	g := &Group{}
	fail := func(err error) (*Group, error) {
		_ = g.remove() // nobody is in it
		if errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		return nil, fmt.Errorf("make control group: %w", err)
	}
	for _, p := range m.parents {
		d := dir{path: filepath.Join(p.dir, name), v2: p.v2, controllers: p.controllers}
		err := os.Mkdir(d.path, 0o755)
		if errors.Is(err, fs.ErrNotExist) {
			// Another engine's Close has removed the parent.
			if p.v2 {
				_, err = m.prepareV2(p.mount)
			} else {
				err = os.MkdirAll(p.dir, 0o755)
			}
			if err == nil {
				err = os.Mkdir(d.path, 0o755)
			}
		}
		if err != nil {
			return fail(err)
		}
		g.dirs = append(g.dirs, d)
		for _, s := range l.settings(p.v2) {
			if !slices.Contains(p.controllers, s.controller) {
				continue
			}
			err := write(filepath.Join(d.path, s.file), s.value)
			if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist)) {
				return fail(err)
			}
		}
	}
	return g, nil
}

func validName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) < 240 && !strings.ContainsAny(name, "/:\n\x00")
}

// Load finds a group by the Path that an earlier process stored. It need not
// exist any more. Paths that are not of this Manager's base are refused.
func (m *Manager) Load(path string) (*Group, error) {
	g := &Group{}
	for p := range strings.SplitSeq(path, ":") {
		d := dir{path: p}
		known := false
		for _, mt := range m.mounts {
			if strings.HasPrefix(p, mt.point+"/") {
				d.v2, d.controllers, known = mt.v2, mt.controllers, true
			}
		}
		tail := filepath.Join(rootName, m.hash, filepath.Base(p))
		if !known || filepath.Clean(p) != p || !strings.HasSuffix(p, "/"+tail) {
			return nil, fmt.Errorf("%q is not a control group of this engine", path)
		}
		if d.v2 {
			// Mounts do not know what was enabled below them; the group does.
			if b, err := os.ReadFile(filepath.Join(p, "cgroup.controllers")); err == nil {
				d.controllers = strings.Fields(string(b))
			}
		}
		g.dirs = append(g.dirs, d)
	}
	return g, nil
}

// Groups that exist beneath the parents.
func (m *Manager) Groups() ([]*Group, error) {
	byName := map[string]*Group{}
	var names []string
	for _, p := range m.parents {
		entries, err := os.ReadDir(p.dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			g := byName[e.Name()]
			if g == nil {
				g = &Group{}
				byName[e.Name()] = g
				names = append(names, e.Name())
			}
			g.dirs = append(g.dirs, dir{path: filepath.Join(p.dir, e.Name()), v2: p.v2, controllers: p.controllers})
		}
	}
	out := make([]*Group, 0, len(names))
	for _, n := range names {
		out = append(out, byName[n])
	}
	return out, nil
}

// DetectTop is Detect with groups beneath the top of each hierarchy, where they
// have the same path in all of them: that is what a container runtime can be told.
func DetectTop(base string) *Manager {
	return detectIn(base, func(m mount) (mount, bool) {
		m.own = m.point
		return m, true
	})
}

// Inner is the path of the group of that name within each hierarchy; for groups of
// DetectTop.
func (m *Manager) Inner(name string) string { return "/" + rootName + "/" + m.hash + "/" + name }
