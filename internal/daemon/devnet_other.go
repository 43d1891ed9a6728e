//go:build !linux

package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/verge-edge/verge/internal/cli/daemonflags"
)

// devNetwork does not exist without network namespaces.
type devNetwork struct{}

var errLinuxOnly = errors.New("it needs Linux")

func openDevNetwork(string, bool) (*devNetwork, error)                           { return nil, errLinuxOnly }
func cleanDev(context.Context, string, *slog.Logger) error                       { return nil }
func runDevWorker(context.Context, daemonflags.DevWorkerFlags) error             { return errLinuxOnly }
func (*devNetwork) addr() (none netip.Addr)                                      { return none }
func (*devNetwork) ask(context.Context) []devState                               { return nil }
func (*devNetwork) stop()                                                        {}
func (*devNetwork) remove() error                                                { return nil }
func (*devNetwork) start(int, devWorker, daemonflags.Process, func(error)) error { return errLinuxOnly }
