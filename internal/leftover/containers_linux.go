package leftover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

const containerdWait = 5 * time.Second

// daemon opens containerd; nil where there is none.
func (o Options) daemon(ctx context.Context) (*containerd.Client, error) {
	address := strings.TrimPrefix(o.Containerd, "unix://")
	if address == "" {
		address = ctrd.DefaultAddress
	}
	knock, err := (&net.Dialer{Timeout: containerdWait}).DialContext(ctx, "unix", address)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil //nolint:nilnil // who may not ask has no containers there
	}
	if err != nil {
		return nil, fmt.Errorf("what a worker left in containerd is not known: %w", err)
	}
	_ = knock.Close() // nothing was written
	c, err := containerd.New(address, containerd.WithDefaultNamespace(ctrd.Namespace),
		containerd.WithTimeout(containerdWait))
	if err != nil {
		return nil, fmt.Errorf("what a worker left in containerd is not known: %w", err)
	}
	return c, nil
}

// containers lists those of workers that are not live.
func (s *scan) containers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, ctrd.Namespace), containerdWait)
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
		w := s.worker(x.Labels[ctrd.LabelEngine], "")
		if w == nil {
			continue
		}
		instance := x.Labels[ctrd.LabelInstance]
		w.add(Container, x.ID, instance+" "+x.Image, 0)
		// Its processes end with it.
		w.Items = slices.DeleteFunc(w.Items, func(i Item) bool {
			return i.Kind == Process && instance != "" && i.instance == instance
		})
	}
}

// removeContainers ends and removes containers, and what was only begun of others.
func (w *Worker) removeContainers(ctx context.Context, o Options) error {
	if len(w.Mark) < envMark {
		return nil
	}
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, ctrd.Namespace), killWait)
	defer cancel()
	c, err := o.daemon(ctx)
	if err != nil || c == nil {
		return err
	}
	defer c.Close() //nolint:errcheck // nothing was written
	var errs []error
	for _, i := range w.Items {
		if i.Kind == Container {
			errs = append(errs, container.Remove(ctx, c, i.Name))
		}
	}
	var begun []string
	files := c.SnapshotService("")
	if err := files.Walk(ctx, func(_ context.Context, i snapshots.Info) error {
		begun = append(begun, i.Name)
		return nil
	}, fmt.Sprintf("labels.%q==%s", ctrd.LabelEngine, w.Mark[:envMark])); err != nil && !errdefs.IsNotFound(err) {
		errs = append(errs, fmt.Errorf("list files of containers: %w", err))
	}
	for _, name := range begun {
		if err := files.Remove(ctx, name); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove files of container %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
