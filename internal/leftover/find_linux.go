package leftover

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	// Reads what the kernel lists of mounts; containerd's client has it anyway.
	"github.com/moby/sys/mountinfo"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// netMark is how much of a mark is in the names of devices and tables, groupMark in those
	// of control groups, envMark in the environment of processes and in labels of containers.
	netMark, groupMark, envMark = 5, 12, 16
	// maxEnviron is the most that Linux lets a process have.
	maxEnviron = 8 << 20
	deleted    = " (deleted)"
)

// locks are the files that a live engine or agent holds, in its data directory. verge dev
// has one in the directory above those of its workers.
var (
	workerLocks = []string{"engine.lock", agentLock}
	locks       = append([]string{"dev.lock"}, workerLocks...)
)

const agentLock = "agent.lock"

// scan is one look at the machine.
type scan struct {
	o       Options
	live    []string // whole marks of live workers
	links   []netlink.Link
	devs    map[string]bool // marks of verge dev's bridges
	unknown bool            // who has the service network: any worker may be live
	daemons map[int]bool
	workers []*Worker
	errs    []error
}

// Find lists the workers that do not run and have left something. What could not be looked
// at is in the error; the rest is listed all the same. With Options.Dir it is a problem if
// that worker runs.
func Find(ctx context.Context, o Options) ([]Worker, error) {
	s := newScan(o)
	only := ""
	if o.Dir != "" {
		dir, err := realDir(o.Dir)
		if err != nil {
			return nil, err
		}
		s.o.Dir, only = dir, wire.Mark(dir)
	}
	s.look(ctx)
	if only != "" && slices.Contains(s.live, only) {
		return nil, wire.Problemf(0, "in-use", "end verge worker, then verge worker stop --data-dir "+s.o.Dir,
			"this worker runs", "a process holds the lock in %s", s.o.Dir)
	}
	var out []Worker
	for _, w := range s.workers {
		if len(w.Items) == 0 || only != "" && w.Mark != only {
			continue
		}
		w.sort()
		out = append(out, *w)
	}
	return out, errors.Join(s.errs...)
}

func newScan(o Options) *scan { return &scan{o: o, daemons: map[int]bool{}, devs: map[string]bool{}} }

func (s *scan) look(ctx context.Context) {
	list, err := processes()
	if err != nil {
		s.errs = append(s.errs, err)
		return // without it nothing is known to be dead
	}
	for i := range list {
		for _, l := range list[i].locks {
			if list[i].live(l) {
				s.alive(&list[i], l.dir)
			}
		}
	}
	known, err := entries(s.o)
	if err != nil {
		s.errs = append(s.errs, err)
		return
	}
	for mark, e := range known {
		if slices.ContainsFunc(list, func(p proc) bool { return p.pid == e.PID && (p.hidden || p.holds()) }) {
			s.live = append(s.live, mark) // it may have been moved since
		}
	}
	s.holder(list)
	s.listLinks()
	for mark, e := range known {
		s.worker(mark, e.Dir)
	}
	if s.o.Dir != "" {
		s.worker(wire.Mark(s.o.Dir), s.o.Dir)
	}
	for i := range list {
		s.process(&list[i])
	}
	s.network()
	s.containers(ctx)
	for _, w := range s.workers {
		w.Intact = hasWorker(w.Dir)
		s.mounts(w)
	}
	s.groups()
}

// alive notes that the worker in dir is live. Engines that were given a relative path have
// it in the names of their control groups.
func (s *scan) alive(p *proc, dir string) {
	s.live = append(s.live, wire.Mark(dir), wire.Mark(dir+"#container"))
	if p.dataDir != "" {
		s.live = append(s.live, wire.Mark(p.dataDir), wire.Mark(p.dataDir+"#container"))
	}
}

// isLive says whether a mark, or a part of one, may be that of a live worker.
func (s *scan) isLive(mark string) bool {
	return s.unknown && !s.devs[mark[:min(netMark, len(mark))]] || slices.ContainsFunc(s.live, func(l string) bool {
		return strings.HasPrefix(l, mark) || strings.HasPrefix(mark, l)
	})
}

// worker is the one with a mark; nil if it is live.
func (s *scan) worker(mark, dir string) *Worker {
	if dir != "" {
		mark = wire.Mark(dir)
	}
	if mark == "" || s.isLive(mark) {
		return nil
	}
	for _, w := range s.workers {
		if strings.HasPrefix(w.Mark, mark) || strings.HasPrefix(mark, w.Mark) {
			if len(mark) > len(w.Mark) {
				w.Mark = mark
			}
			if w.Dir == "" {
				w.Dir = dir
			}
			return w
		}
	}
	w := &Worker{Mark: mark, Dir: dir}
	s.workers = append(s.workers, w)
	return w
}

func (w *Worker) add(k Kind, name, detail string, pid int) {
	w.addItem(Item{Kind: k, Name: name, Detail: detail, pid: pid})
}

func (w *Worker) addItem(i Item) {
	if w != nil {
		w.Items = append(w.Items, i)
	}
}

// proc is what is looked at of a process.
type proc struct {
	pid     int
	hidden  bool // its files may not be looked at
	verge   bool // it runs a program of that name, or this one
	command []string
	dataDir string // value of its flag --data-dir
	locks   []lock
	// engine and instance are of its environment; home as well.
	engine, instance, home string
}

// lock of a worker that a process has open.
type lock struct {
	dir     string
	removed bool
}

// orphan says whether a lock that the process holds makes it an engine or agent that nobody
// can reach any more. Of a verge dev, which has those of all its workers, it does not.
func (p *proc) orphan(l lock) bool {
	return l.removed && p.verge && len(p.command) > 1 && (p.command[1] == "engine" || p.command[1] == "worker")
}

// live says whether a lock that the process holds makes it that of a live worker. Another
// program may have inherited the descriptor of a lock that was removed.
func (p *proc) live(l lock) bool { return !l.removed || p.verge && !p.orphan(l) }

func (p *proc) holds() bool { return slices.ContainsFunc(p.locks, p.live) }

// processes are those of the machine that can be seen from here.
func processes() ([]proc, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []proc
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		p := readProc(pid)
		if pid == os.Getpid() { // it has no worker, but for the locks of one that it cleans
			p.engine, p.locks = "", nil
		}
		out = append(out, p)
	}
	return out, nil
}

// isVerge says whether a process runs verge, by the name of its program, or this program.
func isVerge(proc string) bool {
	program, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil {
		return false // it has ended, or is another user's
	}
	program = strings.TrimSuffix(program, deleted)
	self, err := os.Executable()
	return strings.HasPrefix(filepath.Base(program), "verge") || err == nil &&
		program == strings.TrimSuffix(self, deleted)
}

// readProc looks at a process. One that has ended meanwhile has nothing.
func readProc(pid int) proc {
	at := filepath.Join("/proc", strconv.Itoa(pid))
	p := proc{pid: pid}
	if b, err := atomicfile.ReadBounded(filepath.Join(at, "cmdline"), maxEnviron); err == nil {
		p.command = strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	}
	p.verge = isVerge(at)
	for i, arg := range p.command {
		if v, ok := strings.CutPrefix(arg, "--data-dir="); ok {
			p.dataDir = v
		} else if arg == "--data-dir" && i+1 < len(p.command) {
			p.dataDir = p.command[i+1]
		}
	}
	fds, err := os.ReadDir(filepath.Join(at, "fd"))
	p.hidden = errors.Is(err, fs.ErrPermission)
	for _, fd := range fds {
		to, err := os.Readlink(filepath.Join(at, "fd", fd.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		file, removed := strings.CutSuffix(to, deleted)
		if slices.Contains(locks, filepath.Base(file)) && filepath.IsAbs(file) {
			p.locks = append(p.locks, lock{filepath.Dir(file), removed})
		}
	}
	env, err := atomicfile.ReadBounded(filepath.Join(at, "environ"), maxEnviron)
	if err != nil {
		return p // another user's
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		name, value, _ := bytes.Cut(v, []byte("="))
		switch string(name) {
		case "VERGE_ENGINE":
			p.engine = string(value)
		case "VERGE_INSTANCE":
			p.instance = string(value)
		case "HOME":
			p.home = string(value)
		}
	}
	return p
}

// process lists what belongs to a worker that is not live.
func (s *scan) process(p *proc) {
	for _, l := range p.locks {
		if !p.orphan(l) || s.daemons[p.pid] {
			continue
		}
		s.daemons[p.pid] = true
		w := s.worker("", l.dir)
		if w == nil { // another worker is in its place, and live
			w = &Worker{Mark: wire.Mark(l.dir), Dir: l.dir}
			s.workers = append(s.workers, w)
		}
		w.add(Daemon, strconv.Itoa(p.pid), "verge "+p.command[1], p.pid)
	}
	if len(p.engine) != envMark {
		return
	}
	w := s.worker(p.engine, "")
	if w == nil {
		return
	}
	if dir, _, ok := strings.Cut(p.home, "/instances/"); ok && w.Dir == "" &&
		strings.HasPrefix(wire.Mark(dir), p.engine) {
		w.Dir, w.Mark = dir, wire.Mark(dir)
	}
	w.addItem(Item{Kind: Process, Name: strconv.Itoa(p.pid), pid: p.pid, instance: p.instance,
		Detail: strings.TrimSpace(p.instance + " " + strings.Join(p.command, " "))})
}

// labelled is how the network of a worker says whose it is.
var labelled = regexp.MustCompile(`, in (/.*?)(, process (\d+),)?$`)

// holder notes who has the service network of this network namespace, which may be a
// process that cannot be seen from here.
func (s *scan) holder(list []proc) {
	who, has := claim.Holder()
	if !has {
		return
	}
	m := labelled.FindStringSubmatch(who)
	if m == nil {
		s.unknown = true
		s.errs = append(s.errs, fmt.Errorf("%s has the service network of this machine and does not say where it works",
			who))
		return
	}
	pid, err := strconv.Atoi(m[3])
	orphan := err == nil && slices.ContainsFunc(list, func(p proc) bool {
		return p.pid == pid && len(p.locks) > 0 && !p.holds()
	})
	if !orphan {
		s.live = append(s.live, wire.Mark(m[1]))
	}
}

// listLinks lists the devices of the machine, and notes which verge dev are live.
func (s *scan) listLinks() {
	var err error
	if s.links, err = netlink.LinkList(); err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		s.errs = append(s.errs, fmt.Errorf("list devices: %w", err))
	}
	for _, l := range s.links {
		mark, ok := cutMark(l.Attrs().Name, hostnet.Devices)
		if !ok || l.Attrs().Name != hostnet.Devices+mark+hostnet.DevBridge {
			continue
		}
		s.devs[mark] = true
		if claim.DevRuns(mark) {
			s.live = append(s.live, mark)
			if dir := labelDir(l, mark); dir != "" {
				s.live = append(s.live, wire.Mark(dir))
			}
		}
	}
}

// labelDir is the directory of the worker that made a device, "" where its label does not say.
func labelDir(l netlink.Link, mark string) string {
	if m := labelled.FindStringSubmatch(l.Attrs().Alias); m != nil && strings.HasPrefix(wire.Mark(m[1]), mark) {
		return m[1]
	}
	return ""
}

// network lists devices and tables.
func (s *scan) network() {
	for _, l := range s.links {
		mark, ok := cutMark(l.Attrs().Name, hostnet.Devices)
		if !ok {
			continue
		}
		w := s.worker(mark, labelDir(l, mark))
		w.add(Device, l.Attrs().Name, "", 0)
		if w != nil && l.Attrs().Name == hostnet.Devices+mark+hostnet.DevBridge {
			w.Dev, w.forwards = true, strings.HasPrefix(l.Attrs().Alias, hostnet.DevForwards)
		}
	}
	tables, err := hostnet.Strangers("")
	if err != nil && os.Geteuid() == 0 { // nobody else may look, or make any
		s.errs = append(s.errs, err)
	}
	for _, t := range tables {
		if mark, ok := cutMark(t, hostnet.Tables); ok && len(t) == len(hostnet.Tables)+netMark {
			s.worker(mark, "").add(Table, t, "inet", 0)
		}
	}
	s.devTables()
}

// devTables lists the tables of verge dev, which are of another family.
func (s *scan) devTables() {
	conn, err := nftables.New()
	if err != nil {
		return // said of the others already
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil && os.Geteuid() == 0 && !errors.Is(err, unix.EINTR) {
		s.errs = append(s.errs, fmt.Errorf("list the tables of verge dev: %w", err))
	}
	for _, t := range tables {
		if mark, ok := cutMark(t.Name, hostnet.DevTables); ok {
			w := s.worker(mark, "")
			w.add(Table, t.Name, devFamily, 0)
			if w != nil {
				w.Dev = true
			}
		}
	}
}

// cutMark is the mark after a prefix.
func cutMark(name, prefix string) (mark string, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || len(rest) < netMark || strings.Trim(rest[:netMark], "0123456789abcdef") != "" {
		return "", false
	}
	return rest[:netMark], true
}

// mounts lists what is mounted for instances: the rest of the directory is the operator's.
func (s *scan) mounts(w *Worker) {
	if w.Dir == "" || s.isLive(w.Mark) {
		return
	}
	list, err := mountinfo.GetMounts(nil)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("list mounts: %w", err))
		return
	}
	for _, m := range list {
		for _, below := range []string{"netns", "instances"} {
			if strings.HasPrefix(m.Mountpoint, filepath.Join(w.Dir, below)+"/") {
				w.add(Mount, m.Mountpoint, "", 0)
			}
		}
	}
}

// groups lists the control groups of workers that are known not to be live.
func (s *scan) groups() {
	wanted := map[string]*Worker{}
	for _, w := range s.workers {
		if len(w.Mark) >= groupMark && !s.isLive(w.Mark) {
			wanted[w.Mark[:groupMark]] = w
		}
		if w.Dir != "" && !s.isLive(w.Mark) {
			wanted[wire.Mark(w.Dir + "#container")[:groupMark]] = w
		}
	}
	if len(wanted) == 0 {
		return
	}
	list, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return // said of the mounts already
	}
	for _, m := range list {
		_ = filepath.WalkDir(m.Mountpoint, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return nil //nolint:nilerr // it has ended meanwhile
			}
			if filepath.Base(filepath.Dir(path)) == "verge" {
				wanted[d.Name()].add(Cgroup, path, "", 0)
				return filepath.SkipDir
			}
			return nil
		})
	}
}

// still says whether a process is one that is to be ended.
func (w *Worker) still(pid int, k Kind) bool {
	p := readProc(pid)
	if k == Daemon {
		return slices.ContainsFunc(p.locks, p.orphan)
	}
	return len(p.engine) == envMark && strings.HasPrefix(w.Mark, p.engine)
}

// signal reaches a process that is still the one that was found.
func (w *Worker) signal(pid int, k Kind, sig unix.Signal) (gone bool, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("end process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	if !w.still(pid, k) {
		return true, nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("end process %d: %w", pid, err)
	}
	return false, nil
}
