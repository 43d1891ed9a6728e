package container

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"path/filepath"
	"time"

	shimapi "github.com/containerd/containerd/api/runtime/task/v3"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/pkg/namespaces"

	// What shims speak, as containerd itself does with them.
	"github.com/containerd/ttrpc"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/ending"
	"github.com/verge-edge/verge/internal/wire"
)

// shimSockets is where shims listen, whatever containerd is told of its own folders.
const shimSockets = "/run/containerd/s"

// shimServices are the names by which shims can be asked for a task: of containerd 2, and
// of those before, which take and answer the same.
var shimServices = []string{"containerd.task.v3.Task", "containerd.task.v2.Task"}

// askShim asks the shim of a container that has ended how it did, where containerd is away.
// containerd 2 could not tell when it is back: at its start it removes what has ended, and
// says nobody how. An error means that this is not known here.
func (d *Driver) askShim(ctx context.Context, h runtime.Handle) (wire.Exit, error) {
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(ctx, ctrd.Namespace), ctrd.AnswerWithin)
	defer cancel()
	address := d.conn.Socket()
	name := sha256.Sum256([]byte(filepath.Join(address, ctrd.Namespace, cmp.Or(h.Shim, h.Container))))
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("%s/%x", shimSockets, name))
	if err != nil {
		return wire.Exit{}, err
	}
	c := ttrpc.NewClient(conn)
	defer c.Close() //nolint:errcheck // nothing is lost with it
	var state shimapi.StateResponse
	for _, service := range shimServices {
		if err = c.Call(ctx, service, "State", &shimapi.StateRequest{ID: h.Container}, &state); err == nil {
			break
		}
	}
	if err != nil {
		return wire.Exit{}, err
	}
	if state.Status != tasktypes.Status_STOPPED {
		return wire.Exit{}, fmt.Errorf("its shim says that it is %s", state.Status)
	}
	return exitFrom(state.ExitStatus, state.ExitedAt), nil
}

// exitFrom is how a container ended, in containerd's words.
func exitFrom(status uint32, at *timestamppb.Timestamp) wire.Exit {
	e := wire.Exit{Code: int(status), At: time.Now()}
	if at != nil && at.IsValid() {
		e.At = at.AsTime().Local()
	}
	if n := e.Code - 128; n > 0 && n < 32 {
		e.Signal = ending.SignalName(unix.Signal(n))
	}
	return e
}
