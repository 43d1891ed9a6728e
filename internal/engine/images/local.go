package images

import (
	"context"
	"io"
	"log/slog"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// Local are those of this machine's containerd, which the operator of the machine
// may change without a worker.
type Local struct{ driver imageStore }

type imageStore interface {
	Images(ctx context.Context) ([]imagestore.Image, error)
	Load(ctx context.Context, archive io.Reader, name string) ([]string, error)
	RemoveImage(ctx context.Context, name string) error
	Close() error
}

// Open opens those of the containerd at an address; "" is the usual one.
func Open(address string) *Local {
	return &Local{driver: container.New(container.Options{Address: address, Logger: slog.New(slog.DiscardHandler)})}
}

// Close lets go of them.
func (i *Local) Close() error { return i.driver.Close() }

// List lists them by name.
func (i *Local) List(ctx context.Context) ([]engineapi.ImageView, error) {
	list, err := i.driver.Images(ctx)
	out := make([]engineapi.ImageView, 0, len(list))
	for _, x := range list {
		out = append(out, engineapi.ImageView{Name: x.Name, Digest: x.Digest, Size: x.Size, Created: x.Created,
			Users: x.Users})
	}
	return out, err
}

// Load imports an archive and returns the names of what was in it; name is for an
// image that has none.
func (i *Local) Load(ctx context.Context, archive io.Reader, name string) ([]string, error) {
	return i.driver.Load(ctx, archive, name)
}

// Remove removes one that nothing is made of.
func (i *Local) Remove(ctx context.Context, name string) error {
	return i.driver.RemoveImage(ctx, name)
}
