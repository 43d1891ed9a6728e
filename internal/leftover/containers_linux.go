package leftover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
)

// What the driver of containers has in containerd, and where.
const (
	usualContainerd = "/run/containerd/containerd.sock"
	namespace       = "verge"
	labelEngine     = "verge.engine"
	labelInstance   = "verge.instance"
	groundPrefix    = "verge-ground-" // of snapshots that containers share
	containerdWait  = 5 * time.Second
)

// daemon opens containerd; nil where there is none.
func (o Options) daemon(ctx context.Context) (*containerd.Client, error) {
	address := strings.TrimPrefix(o.Containerd, "unix://")
	if address == "" {
		address = usualContainerd
	}
	knock, err := (&net.Dialer{Timeout: containerdWait}).DialContext(ctx, "unix", address)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // who may not ask has no containers there
	}
	if err != nil {
		return nil, fmt.Errorf("what a worker left in containerd is not known: %w", err)
	}
	_ = knock.Close() // nothing was written
	c, err := containerd.New(address, containerd.WithDefaultNamespace(namespace), containerd.WithTimeout(containerdWait))
	if err != nil {
		return nil, fmt.Errorf("what a worker left in containerd is not known: %w", err)
	}
	return c, nil
}

// containers lists those of workers that are not live.
func (s *scan) containers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, namespace), containerdWait)
	defer cancel()
	c, err := s.o.daemon(ctx)
	if err != nil || c == nil {
		if err != nil {
			s.errs = append(s.errs, err)
		}
		return
	}
	defer c.Close() //nolint:errcheck // nothing was written
	list, err := c.ContainerService().List(ctx)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("list containers: %w", err))
		return
	}
	for _, x := range list {
		w := s.worker(x.Labels[labelEngine], "")
		if w == nil {
			continue
		}
		instance := x.Labels[labelInstance]
		w.add(Container, x.ID, instance+" "+x.Image, 0)
		// Its processes end with it.
		w.Items = slices.DeleteFunc(w.Items, func(i Item) bool {
			return i.Kind == Process && instance != "" && strings.HasPrefix(i.Detail, instance+" ")
		})
	}
}

// removeContainers ends and removes containers, and what was only begun of others.
func (w *Worker) removeContainers(ctx context.Context, o Options) error {
	if len(w.Mark) < envMark {
		return nil
	}
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, namespace), killWait)
	defer cancel()
	c, err := o.daemon(ctx)
	if err != nil || c == nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing was written
	var errs []error
	for _, i := range w.Items {
		if i.Kind == Container {
			errs = append(errs, removeContainer(ctx, c, i.Name))
		}
	}
	var begun []string
	files := c.SnapshotService("")
	if err := files.Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		begun = append(begun, i.Name)
		return nil
	}, fmt.Sprintf("labels.%q==%s", labelEngine, w.Mark[:envMark])); err != nil && !errdefs.IsNotFound(err) {
		errs = append(errs, fmt.Errorf("list files of containers: %w", err))
	}
	for _, name := range begun {
		if err := files.Remove(ctx, name); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove files of container %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func removeContainer(ctx context.Context, c *containerd.Client, id string) error {
	made, err := c.LoadContainer(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	t, err := made.Task(ctx, nil)
	if err == nil {
		_, err = t.Delete(ctx, containerd.WithProcessKill)
	}
	if err != nil && !errdefs.IsNotFound(err) && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("end container %s: %w", id, err)
	}
	info, err := made.Info(ctx, containerd.WithoutRefreshedMetadata)
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	cleanup := []containerd.DeleteOpts{containerd.WithSnapshotCleanup}
	if strings.HasPrefix(info.SnapshotKey, groundPrefix) { // others may stand on it
		cleanup = nil
	}
	if err := made.Delete(ctx, cleanup...); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}
