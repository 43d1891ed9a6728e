package container

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
	"github.com/verge-edge/verge/internal/wire"
)

// healthEvery and healthWithin bound how long a hung containerd goes unnoticed: their sum
// is below 10 s.
const (
	healthEvery  = 5 * time.Second
	healthWithin = 3 * time.Second
)

// While somebody needs containerd it is probed after pauses from firstLook to slowestLook.
// Otherwise the driver waits for its socket, which costs nothing.
const (
	firstLook   = 50 * time.Millisecond
	slowestLook = 10 * time.Second
	// settle is how long after its socket has appeared containerd may begin to
	// answer.
	settle = 5 * time.Second
	// sweepTries is how often what does not go at once is tried again.
	sweepTries = 20
	// debtAgain is when what could not be removed is tried again although containerd is there,
	// debtMost the longest pause of those that follow.
	debtAgain = time.Minute
	debtMost  = time.Hour
)

// Report implements runtime.Reporter.
func (d *Driver) Report(problem func(error), changed func()) {
	d.mu.Lock()
	d.problem, d.changed = problem, changed
	d.mu.Unlock()
	d.guardOnce()
}

// attend sees to it that the driver notices when containerd ends or is back.
func (d *Driver) attend() {
	d.guardOnce()
	select {
	case d.poke <- struct{}{}:
	default: // it is about to look
	}
}

func (d *Driver) guardOnce() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.guarding || d.closed {
		return
	}
	d.guarding = true
	d.wg.Go(func() { d.guard(d.ctx) })
}

// guard knows whether containerd is there: of its end it learns from the kernel,
// which says when the process at the other end of the socket has ended.
func (d *Driver) guard(ctx context.Context) {
	seen, was := false, false // ever; at the last look
	pause := firstLook
	for ctx.Err() == nil {
		daemon, err := d.daemon(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if d.needed() || seen {
				d.problem(fmt.Errorf("%w; what runs goes on, nothing new is started", err))
			}
			if was {
				pause = firstLook
			}
			was = false
			d.await(ctx, pause)
			pause = min(2*pause, slowestLook)
			continue
		}
		seen = true
		sick := d.conn.Health(ctx, d.healthWithin)
		if sick == nil {
			pause = firstLook
			d.problem(nil)
			if !was {
				d.changed()
				d.seekOrphans()
			}
			was = true
			d.settleDebts(ctx)
			sick = d.park(ctx, daemon)
		} else if daemon != nil {
			daemon.Close()
		}
		if sick != nil && ctx.Err() == nil {
			d.problem(fmt.Errorf("%w; what runs goes on, nothing new is started", sick))
			was = false
			d.rest(ctx, pause)
			pause = min(2*pause, d.healthEvery)
		}
	}
}

// rest waits for a while.
func (d *Driver) rest(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// needed says whether somebody waits for containerd.
func (d *Driver) needed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.living > 0 || len(d.debts) > 0
}

// daemon is containerd's process, nil where it cannot be seen from here.
func (d *Driver) daemon(ctx context.Context) (*pidfd.Process, error) {
	conn, err := d.conn.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // nothing was written
	pid, err := ctrd.PeerOf(conn)
	if err != nil {
		return nil, err
	}
	p, err := pidfd.Find(pid, 0)
	if err != nil { // of another pid namespace, or just gone
		return nil, nil //nolint:nilnil // as the comment says
	}
	return p, nil
}

// park waits until containerd has ended, and pays debts that come. An error says that
// containerd is there and stands still.
func (d *Driver) park(ctx context.Context, daemon *pidfd.Process) (sick error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone := make(chan struct{})
	if daemon != nil {
		defer daemon.Close()
		d.wg.Go(func() {
			if daemon.Wait(ctx) == nil {
				close(gone)
			}
		})
	}
	look := time.NewTicker(d.healthEvery)
	defer look.Stop()
	pause, again := d.debtAgain, time.NewTimer(0)
	again.Stop()
	defer again.Stop()
	waits := false // for again
	for {
		if owes := d.owes(); owes && !waits {
			again.Reset(pause)
			waits = true
		} else if !owes && waits {
			again.Stop()
			waits = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			return nil
		case <-look.C:
			if err := d.conn.Health(ctx, d.healthWithin); err != nil {
				return err
			}
			continue
		case <-d.poke:
			pause = d.debtAgain
		case <-again.C:
			pause = min(2*pause, debtMost)
		}
		again.Stop()
		waits = false
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			return nil
		default:
		}
		if d.owes() {
			d.settleDebts(ctx)
		}
		if daemon == nil {
			return nil // nobody would tell
		}
	}
}

// owes says whether there is something to be removed.
func (d *Driver) owes() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.debts) > 0 || d.sweep != nil
}

// await waits until containerd may be back: its socket has appeared or, where
// somebody needs it, pause is over.
func (d *Driver) await(ctx context.Context, pause time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	appeared := make(chan struct{})
	d.wg.Go(func() {
		if d.appears(ctx) {
			close(appeared)
		}
	})
	for {
		var over <-chan time.Time
		var t *time.Timer
		if d.needed() {
			t = time.NewTimer(pause)
			over = t.C
		}
		select {
		case <-ctx.Done():
		case <-over:
		case <-d.poke: // it may be needed now
			if t != nil {
				t.Stop()
			}
			continue
		case <-appeared:
			d.settles(ctx)
		}
		if t != nil {
			t.Stop()
		}
		return
	}
}

// settles waits until containerd listens at the socket that has appeared.
func (d *Driver) settles(ctx context.Context) {
	for end := time.Now().Add(settle); time.Now().Before(end) && ctx.Err() == nil; {
		conn, err := d.conn.Dial(ctx)
		if err == nil {
			_ = conn.Close() // it was only a knock
			return
		}
		t := time.NewTimer(firstLook)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
}

// appears waits until something has the name of containerd's socket that had not
// before, or a directory above it, or that in which it would be is removed. False if it
// cannot be waited for.
func (d *Driver) appears(ctx context.Context) bool {
	path := d.conn.Socket()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		d.log.Debug("containerd's socket can't be waited for", "error", err)
		return false
	}
	f := os.NewFile(uintptr(fd), "inotify")
	defer f.Close() //nolint:errcheck // nothing was written
	defer context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Now()) })()
	// The deepest directory that is there, and what is to appear in it.
	dir, name := filepath.Dir(path), filepath.Base(path)
	for {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err == nil {
			break
		}
		if dir == "/" || dir == "." {
			return false
		}
		dir, name = filepath.Dir(dir), filepath.Base(dir)
	}
	// It may have come before we watched; of the socket itself that is seen by the
	// next dial, but a directory must be watched in its turn.
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && filepath.Join(dir, name) != path {
		return true
	}
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return false
		}
		// A name in an event ends with zeros. Of a directory that is removed no event comes
		// any more, whatever is made of that name.
		if strings.Contains(string(buf[:n]), name+"\x00") || unwatched(buf[:n]) {
			return true
		}
	}
}

// unwatched says whether what was watched is there no more, by events of inotify.
func unwatched(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask, name := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		if mask&unix.IN_IGNORED != 0 {
			return true
		}
		events = events[min(unix.SizeofInotifyEvent+int(name), len(events)):]
	}
	return false
}

// owe notes that a container is to be removed when containerd is back.
func (d *Driver) owe(id string) {
	d.oweThat(id, func(ctx context.Context) error { return d.remove(ctx, id) })
}

// oweThat notes what is to be done when containerd is back, by the name of what it removes.
func (d *Driver) oweThat(id string, remove func(ctx context.Context) error) {
	d.mu.Lock()
	d.debts[id] = remove
	d.mu.Unlock()
	d.attend()
}

// settleDebts removes what could not be removed before.
func (d *Driver) settleDebts(ctx context.Context) {
	d.mu.Lock()
	keep := d.sweep
	debts := maps.Clone(d.debts)
	d.mu.Unlock()
	for id, remove := range debts {
		rctx, cancel := context.WithTimeout(ctx, leftoverTimeout)
		err := remove(rctx)
		cancel()
		if err != nil {
			d.log.Warn("what containerd has of an ended container is left", "id", id, "error", err)
			continue
		}
		d.mu.Lock()
		delete(d.debts, id)
		d.mu.Unlock()
	}
	if keep == nil {
		return
	}
	if err := d.sweepContainers(ctx, func(_, path string) bool { return keep(path) }); err != nil {
		d.log.Warn("containers that a dead engine had made are left", "error", err)
		return
	}
	d.mu.Lock()
	d.sweep = nil
	d.mu.Unlock()
}

// Sweep kills and removes the containers of this engine whose control group (as in
// Handle.Cgroup) is not to be kept: those that a crashed engine had started but not
// yet written down. While containerd is away their processes are ended, and the
// rest is removed when it is back.
func (d *Driver) Sweep(ctx context.Context, keep func(path string) bool) error {
	groups, err := d.groups.Groups()
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !keep(g.Path()) {
			if err := g.Remove(ctx); err != nil {
				return err
			}
		}
	}
	for try := 1; ; try++ {
		err := d.sweepContainers(ctx, func(_, path string) bool { return keep(path) })
		if err == nil {
			return nil
		}
		// A container whose processes were just ended is ending by itself.
		if try < sweepTries && !errors.Is(err, runtime.ErrAway) && ctx.Err() == nil {
			t := time.NewTimer(firstLook)
			select {
			case <-ctx.Done():
			case <-t.C:
			}
			t.Stop()
			continue
		}
		d.mu.Lock()
		d.sweep = keep
		d.mu.Unlock()
		if errors.Is(err, runtime.ErrAway) {
			return nil // nobody is bothered on a machine that never had a container
		}
		return err
	}
}

// EndOrphans implements runtime.Orphans.
func (d *Driver) EndOrphans(ctx context.Context, id wire.InstanceID) error {
	return d.sweepContainers(ctx, func(instance, _ string) bool { return instance != id })
}

// sweepContainers removes the containers of this engine that are nobody's, except
// those to be kept, by instance and control group.
func (d *Driver) sweepContainers(ctx context.Context, keep func(instance, path string) bool) error {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	ours := fmt.Sprintf("labels.%q==%s", ctrd.LabelEngine, d.mark)
	list, err := c.ContainerService().List(ctx, ours)
	if err != nil {
		return d.conn.OrAway(err)
	}
	stray := func(id string, labels map[string]string) bool {
		// Without control groups nothing tells a stray from one that is named.
		return !d.knows(id) && labels[labelCgroup] != "" && !keep(labels[ctrd.LabelInstance], labels[labelCgroup])
	}
	made := map[string]bool{}
	for _, x := range list {
		made[x.ID] = true
		if !stray(x.ID, x.Labels) {
			continue
		}
		if err := d.remove(ctx, x.ID); err != nil {
			return err
		}
		d.log.Info("removed a container that a dead engine had begun", "container", x.ID)
	}
	// What came no further than its files.
	var files []string
	snapshotter := c.SnapshotService("")
	if err := snapshotter.Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		if !made[i.Name] && stray(i.Name, i.Labels) {
			files = append(files, i.Name)
		}
		return nil
	}, ours); err != nil {
		return d.conn.OrAway(err)
	}
	for _, name := range files {
		if err := snapshotter.Remove(ctx, name); err != nil && !ctrd.IsNotFound(err) {
			return d.conn.OrAway(err)
		}
	}
	return nil
}
