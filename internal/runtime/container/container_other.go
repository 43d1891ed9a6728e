//go:build !linux

package container

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// Name of the driver in descriptors.
const Name = "container"

var errSystem = errors.New("containers need Linux")

// Options of a Driver.
type Options struct {
	Base    string
	Address string
	Pull    engineapi.PullConfig
	Logger  *slog.Logger
}

// Driver runs no containers here.
type Driver struct{}

// New makes a driver that says why it cannot work.
func New(Options) *Driver { return &Driver{} }

// Name is "container".
func (*Driver) Name() string { return Name }

// Probe always fails.
func (*Driver) Probe() (missing string, err error) { return "", errSystem }

// Start implements runtime.Driver.
func (*Driver) Start(context.Context, runtime.Spec) (runtime.Task, error) { return nil, errSystem }

// Adopt implements runtime.Driver.
func (*Driver) Adopt(context.Context, runtime.Spec, runtime.Handle) (runtime.Task, error) {
	return nil, errSystem
}

// Close does nothing.
func (*Driver) Close() error { return nil }

// Images always fails.
func (*Driver) Images(context.Context) ([]imagestore.Image, error) { return nil, errSystem }

// Load always fails.
func (*Driver) Load(context.Context, io.Reader, string) ([]string, error) { return nil, errSystem }

// RemoveImage always fails.
func (*Driver) RemoveImage(context.Context, string) error { return errSystem }
