package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
)

// start starts a program in a host, in a session of its own: it outlives this
// process. The channel is closed when it has ended.
func (l *Lab) start(host string, cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	log, err := os.OpenFile(l.Log(host), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // nothing is lost by it
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = l.Do(host, func() error {
		if err := l.keep(host); err != nil {
			return err
		}
		return cmd.Start()
	})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	l.children.Go(func() {
		defer close(done)
		_ = cmd.Wait() // its log says how it ended
	})
	return done, nil
}

// keep this thread, and what it starts, to the processors of a host: hosts that say
// how many get them in turns, in the order of their names.
func (l *Lab) keep(host string) error {
	cores := l.file.Hosts[host].Cores
	if cores == 0 {
		return nil
	}
	var have, set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &have); err != nil {
		return fmt.Errorf("processors of this machine: %w", err)
	}
	var all []int
	for i := 0; len(all) < have.Count(); i++ {
		if have.IsSet(i) {
			all = append(all, i)
		}
	}
	first := 0
	for _, name := range l.file.names() {
		if name < host {
			first += l.file.Hosts[name].Cores
		}
	}
	for i := range cores {
		set.Set(all[(first+i)%len(all)])
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("keep %s to %d processors: %w", host, cores, err)
	}
	return nil
}

// Start starts a program in a host; its output goes to the host's log. It ends
// with the lab. The channel is closed when it has ended.
func (l *Lab) Start(host, program string, args ...string) (ended <-chan struct{}, err error) {
	return l.start(host, exec.Command(program, args...))
}

// Processes that run in a host, by the namespaces that they are in, or by their
// control group: an instance in the service network has namespaces of its own.
func (l *Lab) Processes(host string) ([]int, error) {
	pids, err := processesIn(l.files(host))
	if err != nil {
		return nil, err
	}
	pids = append(pids, processesOf(Groups(l.Dir(host)))...)
	slices.Sort(pids)
	return slices.Compact(pids), nil
}

// files of a host's namespaces.
func (l *Lab) files(host string) (out []string) {
	return []string{l.namespace("net", host), l.namespace("mnt", host), l.namespace("net", host+natSuffix)}
}

type inode struct{ dev, ino uint64 }

func inodeOf(file string) (inode, error) {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		return inode{}, err
	}
	return inode{st.Dev, st.Ino}, nil
}

// processesIn lists those, but for this one, that are in one of the namespaces at the files; files
// that are not there count for nothing.
func processesIn(files []string) (out []int, err error) {
	want := map[inode]bool{}
	for _, f := range files {
		// A file at which nothing is mounted is in no process's namespaces.
		if i, err := inodeOf(f); err == nil {
			want[i] = true
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		for _, kind := range []string{"net", "mnt"} {
			// It may have ended by now.
			if i, err := inodeOf(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil && want[i] {
				out = append(out, pid)
				break
			}
		}
	}
	return out, nil
}

// endAll kills processes until there are none.
func endAll(list func() ([]int, error)) error {
	deadline := time.Now().Add(time.Minute)
	for {
		pids, err := list()
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the processes %v of the lab do not end", pids)
		}
		for _, pid := range pids {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended by now
		}
		time.Sleep(5 * time.Millisecond) // the kernel takes a moment, and an engine's agent may have started another
	}
}

// Down ends everything that runs in the lab and removes it. What is not there is
// no error.
func (l *Lab) Down() error {
	l.clients.close()
	files, err := l.all()
	if err != nil {
		return err
	}
	var dirs []string
	for _, host := range l.hosts() {
		dirs = append(dirs, l.Dir(host))
	}
	if err := endAll(func() ([]int, error) { return processesIn(files) }); err != nil {
		return err
	}
	// Nobody is left who could make another group, so that they are looked for once:
	// that takes much longer than anything else here.
	left := Groups(dirs...)
	if err := endAll(func() ([]int, error) { return processesOf(left), nil }); err != nil {
		return err
	}
	l.children.Wait()
	if err := removeGroups(left); err != nil {
		return err
	}
	for _, f := range files {
		if err := unix.Unmount(f, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s: %w", f, err)
		}
	}
	if err := unix.Unmount(l.dir, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", l.dir, err)
	}
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("remove the lab's directory: %w", err)
	}
	_ = os.Remove(filepath.Dir(l.dir)) // if it was the last one
	return nil
}

// all files of namespaces that are there, whatever the lab file says.
func (l *Lab) all() (out []string, err error) {
	for _, kind := range []string{"net", "mnt"} {
		entries, err := os.ReadDir(filepath.Join(l.dir, kind))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			out = append(out, filepath.Join(l.dir, kind, e.Name()))
		}
	}
	return out, nil
}

// hosts that have a directory.
func (l *Lab) hosts() (out []string) {
	entries, _ := os.ReadDir(filepath.Join(l.dir, "hosts")) // none: the lab was never made
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// processesOf control groups. A process is in one of each kind.
func processesOf(groups []string) (pids []int) {
	for _, g := range groups {
		b, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		if err != nil {
			continue // it has just been removed
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// removeGroups removes the control groups that killed engines could not.
func removeGroups(groups []string) error {
	for _, g := range slices.Backward(groups) {
		if err := os.Remove(g); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove a control group: %w", err)
		}
	}
	return nil
}

// Exec replaces this process by a program in a host, with the context of the
// orchestrator there, or else of the root. It returns only if that fails.
func (l *Lab) Exec(host string, args, env []string) error {
	return onthread.Do(func() error {
		if err := l.enter(host); err != nil {
			return err
		}
		if err := l.keep(host); err != nil {
			return err
		}
		path, err := exec.LookPath(args[0])
		if err != nil {
			return fmt.Errorf("run %s: %w", args[0], err)
		}
		env = append(env, "VERGE_LAB="+l.Name(), "VERGE_LAB_HOST="+host)
		if c := l.contextFor(host); c != "" {
			env = append(env, "VERGE_CONTEXT="+c)
		}
		err = unix.Exec(path, args, env)
		return fmt.Errorf("run %s: %w", path, err)
	})
}

// contextFor a user at a host; "" if there is none.
func (l *Lab) contextFor(host string) string {
	for _, h := range append([]string{host}, l.file.with(RoleRoot)...) {
		f := filepath.Join(l.Dir(h), "context.yaml")
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return ""
}
