package e2e

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// How something fails.
const (
	killed  = "killed"  // its processes die
	stopped = "stopped" // they exist and do nothing
	silent  = "silent"  // what it sends and is sent vanishes
	cutOff  = "cut off" // it is answered with resets, and so is who asks it
	full    = "full"    // of a disk, only where disks are of their own: see ownDisk
)

var failures = []string{killed, stopped, silent, cutOff}

// dirOf is the data directory of a node.
func (w *world) dirOf(node string) string { return filepath.Join(w.dir, node+".d") }

// sizeOfDisk in memory: what its nodes promise is there, and nothing is taken
// before it is used.
const sizeOfDisk = "64g"

// ownDisk gives a node that is about to be made a disk of its own, in memory.
func (w *world) ownDisk(node string) {
	w.t.Helper()
	dir := w.dirOf(node)
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+sizeOfDisk); err != nil {
		w.t.Fatalf("mounting memory: %v", err)
	}
	w.disks++
	owner := w.t
	owner.Cleanup(func() {
		killAll(owner, w.dir)
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			owner.Error(err)
		}
	})
}

// breakage says how a part at a node is made to fail and how that ends; r is the
// process of an instance.
func (w *world) breakage(part, how, node string, r running) (do, undo func()) {
	x := w.worker[node]
	links := func(matches ...[2]string) (do, undo func()) {
		m := w.machine(node)
		action := map[string]string{silent: vanish, cutOff: refuse}[how]
		return func() { m.fail(w.t, part, action, matches...) }, func() { m.repair(w.t, part) }
	}
	signal := func(pids ...int) (do, undo func()) {
		send := func(s syscall.Signal) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, s) // it may have ended, by another part's failure
			}
		}
		return func() { send(syscall.SIGSTOP) }, func() { send(syscall.SIGCONT) }
	}
	restart := func(d *daemon, up func()) (do, undo func()) {
		return d.kill, func() {
			if !d.running() {
				d.start()
				up()
			}
		}
	}
	switch part {
	case "disk":
		var free func()
		return func() { free = fill(w.t, w.dirOf(node)) }, func() { free() }
	case "instance":
		switch how {
		case killed:
			return func() { _ = syscall.Kill(r.pid, syscall.SIGKILL) }, func() {}
		case stopped:
			return signal(r.pid)
		}
		if r.port == "" {
			return func() {}, func() {} // nobody sends it anything
		}
		return links(port(r.port, true))
	case "agent":
		switch how {
		case killed:
			return restart(x.daemon, func() {})
		case stopped:
			return signal(x.pid())
		}
		return links(flow(w.cluster[x.inCluster].link))
	case "engine":
		switch how {
		case killed:
			pid := enginePID(w.t, x)
			return func() { _ = syscall.Kill(pid, syscall.SIGKILL) }, func() {}
		case stopped:
			return signal(enginePID(w.t, x))
		}
		return links(port("8474", false), peers("8474"))
	case "worker":
		switch how {
		case killed:
			return func() { killAll(w.t, x.dir) }, x.start
		case stopped:
			var pids []int
			for _, p := range processesOf(x.dir) {
				pids = append(pids, p.pid)
			}
			return signal(pids...)
		}
		return links(outside)
	case "cluster", "root":
		tier := w.root
		if part == "cluster" {
			tier = w.cluster[node]
		}
		switch how {
		case killed:
			return restart(tier.daemon, tier.answers)
		case stopped:
			return signal(tier.pid())
		}
		return links(outside)
	}
	w.t.Fatalf("there is no part %q", part)
	return nil, nil
}
