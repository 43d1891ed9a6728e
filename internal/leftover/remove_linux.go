package leftover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/hostnet"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/wire"
)

// How long to wait for what is being ended.
const (
	grace     = 5 * time.Second
	killWait  = 10 * time.Second
	lookAgain = 20 * time.Millisecond
)

// Remove removes what a worker left that Find has listed. Of an intact one nobody can start
// it meanwhile.
func Remove(ctx context.Context, o Options, w *Worker) error {
	if w.Intact {
		for _, name := range workerLocks {
			if name == agentLock && o.AgentLocked {
				continue
			}
			unlock, err := lockSoon(ctx, filepath.Join(w.Dir, name))
			if err != nil {
				return wire.Problemf(0, "in-use", "end verge worker first", "the worker in "+w.Dir+" runs", "%v", err)
			}
			defer unlock() // when all is removed
		}
	}
	if err := w.end(ctx, Daemon); err != nil {
		return err
	}
	// An engine may have made more until it ended.
	now, err := w.again(ctx, o)
	if now == nil {
		return err
	}
	// What could not be looked at keeps nobody from removing the rest.
	err = errors.Join(err, now.removeContainers(ctx, o), now.end(ctx, Process), now.removeGroups(ctx), now.unmount(),
		now.removeNetwork())
	if err != nil {
		return err
	}
	left, err := w.again(ctx, o)
	if err == nil && left != nil {
		return fmt.Errorf("%s is left of %s: %s %s", left.Summary(), left, left.Items[0].Kind, left.Items[0].Name)
	}
	if err == nil {
		_ = os.Remove(filepath.Join(registry(o), w.Mark)) // it may never have been there
	}
	return err
}

// lockSoon is atomicfile.Lock, which waits a while for a process that was killed: it holds its locks
// until the kernel has closed its files and devices.
func lockSoon(ctx context.Context, path string) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for {
		unlock, err = atomicfile.Lock(path)
		if !errors.Is(err, atomicfile.ErrLocked) {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lookAgain):
		}
	}
}

// again is what is there of a worker now; nil if nothing is.
func (w *Worker) again(ctx context.Context, o Options) (*Worker, error) {
	s := newScan(o)
	s.o.Dir = w.Dir
	s.look(ctx)
	for _, x := range s.workers {
		if len(x.Items) > 0 && (strings.HasPrefix(x.Mark, w.Mark) || strings.HasPrefix(w.Mark, x.Mark)) {
			x.sort()
			return x, errors.Join(s.errs...)
		}
	}
	return nil, errors.Join(s.errs...)
}

// end ends the processes of a kind: by SIGTERM, and by SIGKILL what is left after the grace.
func (w *Worker) end(ctx context.Context, k Kind) error {
	var pids []int
	for i := range w.Items {
		if w.Items[i].Kind == k {
			pids = append(pids, w.Items[i].pid)
		}
	}
	if len(pids) == 0 {
		return nil
	}
	for _, pid := range pids {
		if _, err := w.signal(pid, k, unix.SIGTERM); err != nil {
			return err
		}
	}
	left, err := w.gone(ctx, k, grace, pids, 0)
	if err != nil || len(left) == 0 {
		return err
	}
	if left, err = w.gone(ctx, k, killWait, left, unix.SIGKILL); err == nil && len(left) > 0 {
		err = fmt.Errorf("processes %v do not end", left)
	}
	return err
}

// gone waits until processes have ended, and sends a signal to those that have not.
func (w *Worker) gone(ctx context.Context, k Kind, most time.Duration, pids []int, sig unix.Signal) (left []int,
	err error) {
	end := time.NewTimer(most)
	defer end.Stop()
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		left = nil
		for _, pid := range pids {
			gone, err := w.signal(pid, k, sig)
			if err != nil {
				return nil, err
			}
			if !gone {
				left = append(left, pid)
			}
		}
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return left, ctx.Err()
		case <-end.C:
			return left, nil
		case <-tick.C:
		}
	}
}

// removeGroups ends what is still in the control groups and removes them.
func (w *Worker) removeGroups(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	var errs []error
	for i := range w.Items {
		if w.Items[i].Kind == Cgroup {
			errs = append(errs, cgroup.RemoveTree(ctx, w.Items[i].Name))
			_ = unix.Rmdir(filepath.Dir(w.Items[i].Name)) // other workers may have theirs in it
		}
	}
	return errors.Join(errs...)
}

// unmount ends mounts, the last first.
func (w *Worker) unmount() error {
	var errs []error
	for _, i := range slices.Backward(w.Items) {
		if i.Kind != Mount {
			continue
		}
		if err := unix.Unmount(i.Name, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil &&
			!errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", i.Name, err))
		}
		if filepath.Base(filepath.Dir(i.Name)) == "netns" {
			_ = os.Remove(i.Name)               // an empty file, that was there for the mount
			_ = os.Remove(filepath.Dir(i.Name)) // with the last of them
		}
	}
	return errors.Join(errs...)
}

// removeNetwork removes the devices and the table.
func (w *Worker) removeNetwork() error {
	var errs []error
	if w.forwards { // first: the bridge says so
		errs = append(errs, hostnet.EndForwarding(hostnet.DevTables+w.Mark[:netMark]))
	}
	for _, i := range w.Items {
		switch i.Kind {
		case Device:
			dev, err := netlink.LinkByName(i.Name)
			if err == nil {
				err = netlink.LinkDel(dev)
			}
			var absent netlink.LinkNotFoundError
			if err != nil && !errors.As(err, &absent) && !errors.Is(err, unix.ENODEV) { // the other end took it along
				errs = append(errs, fmt.Errorf("remove device %s: %w", i.Name, err))
			}
		case Table:
			conn, err := nftables.New()
			if err == nil {
				family := nftables.TableFamilyINet
				if i.Detail == devFamily {
					family = nftables.TableFamilyIPv4
				}
				conn.DelTable(&nftables.Table{Name: i.Name, Family: family})
				err = conn.Flush()
			}
			if err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove table %s %s: %w", i.Detail, i.Name, err))
			}
		case Daemon, Container, Process, Cgroup, Mount:
		}
	}
	return errors.Join(errs...)
}
