package container

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
)

// orphanFor is how long a shim has to be without any process before it is ended: much
// longer than it takes until the first container is under one.
const orphanFor = 5 * time.Second

// orphan is a shim under which there is nothing.
type orphan struct {
	pid     int
	started uint64
}

// seekOrphans ends soon what shims there are under which there is nothing. A containerd
// that died leaves those that it had just started. So does a shim that ends while another
// one is started in its place: it removes the socket by its name, which is by then that
// of the other one (containerd 1.6), so that nobody can be connected to that any more.
func (d *Driver) seekOrphans() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orphans++
	if d.orphans > 1 || d.closed { // who looks now, looks again
		return
	}
	d.wg.Go(func() {
		for more := true; more; {
			d.mu.Lock()
			asked := d.orphans
			d.mu.Unlock()
			d.endOrphans(d.ctx)
			d.mu.Lock()
			if more = d.orphans > asked && d.ctx.Err() == nil; !more {
				d.orphans = 0
			}
			d.mu.Unlock()
		}
	})
}

// endOrphans ends the shims under which there is nothing, and which are of no container.
// Nobody else knows of them, and each has 12 MB. Where one is needed after all, the start
// that needs it is made again under another.
func (d *Driver) endOrphans(ctx context.Context) {
	first := d.childless()
	if len(first) == 0 {
		return
	}
	t := time.NewTimer(orphanFor)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	still := d.childless()
	for id, o := range still {
		if first[id] != o {
			delete(still, id)
		}
	}
	if err := d.withoutContainers(ctx, still); err != nil {
		return // the next time that containerd is back tells
	}
	for _, o := range still {
		p, err := pidfd.Find(o.pid, o.started)
		if err == nil {
			err = p.Signal(unix.SIGKILL)
			p.Close()
		}
		if err != nil && !errors.Is(err, runtime.ErrGone) {
			d.log.Warn("a shim of containerd is left under which there is nothing", "pid", o.pid, "error", err)
			continue
		}
		d.log.Info("ended a shim of containerd under which there was nothing", "pid", o.pid)
	}
}

// childless are the shims of our namespace that have no children, by the containers that
// they were started for.
func (d *Driver) childless() map[string]orphan {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	address := unlinked(d.conn.Socket())
	parents, out := map[int]bool{}, map[string]orphan{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		parents[parentOf(pid)] = true
		if id, at := shimOf(pid); id != "" && unlinked(at) == address {
			if started, gone, err := pidfd.StartOf(pid); err == nil && !gone {
				out[id] = orphan{pid, started}
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, o orphan) bool { return parents[o.pid] })
	return out
}

// withoutContainers leaves those whose container is not there any more.
func (d *Driver) withoutContainers(ctx context.Context, shims map[string]orphan) error {
	if len(shims) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, ctrd.Namespace), ctrd.AnswerWithin)
	defer cancel()
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	list, err := c.ContainerService().List(ctx)
	if err != nil {
		return d.conn.OrAway(err)
	}
	for _, x := range list {
		delete(shims, x.ID)
	}
	return nil
}

// shimOf is for which container of ours a process was started as a shim, and by the
// containerd at which address; "" is that it is none.
func shimOf(pid int) (id, address string) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return "", "" // it has ended
	}
	args := strings.Split(string(bytes.TrimRight(b, "\x00")), "\x00")
	if !strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
		return "", ""
	}
	values := map[string]string{}
	for i := 1; i+1 < len(args); i++ {
		values[strings.TrimLeft(args[i], "-")] = args[i+1]
	}
	if values["namespace"] != ctrd.Namespace {
		return "", ""
	}
	return values["id"], values["address"]
}

// unlinked is a path without links, where it can be told.
func unlinked(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}
