package workers

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/profiler"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Exec passes a step of a session on to the worker that it is on. A session's id
// says which, so that nothing is remembered here.
func Exec(ctx context.Context, c *core.Core, q rpc.ExecAsk) (a rpc.ExecAnswer, err error) {
	if q.Do == rpc.ExecDoProfile && q.Profile != nil {
		a.Profile, err = profiler.Profile(ctx, c, q.Profile, q.Owner)
		return a, err
	}
	at := rpc.ExecID{Cluster: c.ClusterName, Instance: q.Instance}
	if q.Do == rpc.ExecDoStart || q.Do == rpc.ExecDoInvoke {
		at.Worker, err = WorkerOf(c, q.Instance, "nothing can be asked of it yet")
	} else if at, err = rpc.ParseExecID(q.Session); err != nil || at.Cluster != c.ClusterName ||
		!HasWorker(c, at.Worker) {
		err = wire.Problemf(404, "no-such-session", "start another", "there is no such session",
			"it is not one of cluster %s", c.ClusterName)
	}
	if err != nil {
		return a, err
	}
	q.Session, q.Instance = at.Session, at.Instance
	if err := core.AskWorker(ctx, c, at.Worker, rpc.Ask{What: rpc.AskExec, Exec: &q}, "it cannot be reached now",
		&a); err != nil {
		return a, err
	}
	if a.Session != "" {
		at.Session = a.Session
		a.Session = at.String()
	}
	return a, nil
}

// WorkerOf is the worker that an instance is on; title says what it means if it
// is on none.
func WorkerOf(c *core.Core, id wire.InstanceID, title string) (string, error) {
	return core.View2(c, func(m *state.Model) (string, error) {
		i := m.Insts[id]
		switch {
		case i == nil:
			return "", core.NoInstance(c, id)
		case i.Worker == "":
			return "", wire.Problemf(409, "not-placed", "verge describe instance/"+id, title,
				"%s is %s and on no worker", id, i.State)
		}
		return i.Worker, nil
	})
}

// Entries asks a worker for the addresses of services on it.
func Entries(ctx context.Context, c *core.Core, worker string) ([]rpc.EntryView, error) {
	if !HasWorker(c, worker) {
		return nil, NoWorker(c.ClusterName, worker)
	}
	list := []rpc.EntryView{}
	err := core.AskWorker(ctx, c, worker, rpc.Ask{What: rpc.AskEntries, Worker: worker},
		"the addresses of services there cannot be shown now", &list)
	return list, err
}

// HasWorker reports whether a worker of that name has joined.
func HasWorker(c *core.Core, name string) bool {
	return core.View(c, func(m *state.Model) bool {
		return m.Workers[name] != nil
	})
}

// AskRoutes passes a question about routes or paths on to the worker. The answer
// is the worker's, as it is.
func AskRoutes(ctx context.Context, c *core.Core, q rpc.Ask, out any) error {
	if !HasWorker(c, q.Worker) {
		return NoWorker(c.ClusterName, q.Worker)
	}
	return core.AskWorker(ctx, c, q.Worker, q, "the worker cannot be asked now", out)
}

// RoutesPage is what a root is answered.
func RoutesPage(ctx context.Context, c *core.Core, q rpc.Ask) (page json.RawMessage, err error) {
	err = AskRoutes(ctx, c, q, &page)
	return page, err
}

// Volumes asks a worker for its named volumes.
func Volumes(ctx context.Context, c *core.Core, worker string) ([]rpc.VolumeView, error) {
	list := []rpc.VolumeView{}
	if !HasWorker(c, worker) {
		return list, NoWorker(c.ClusterName, worker)
	}
	if err := core.AskWorker(ctx, c, worker, rpc.Ask{What: rpc.AskVolumes, Worker: worker},
		"its volumes cannot be listed now", &list); err != nil {
		return list, err
	}
	return core.View2(c, func(m *state.Model) ([]rpc.VolumeView, error) {
		for i := range list {
			v := &list[i]
			v.Cluster, v.Worker = c.ClusterName, worker
			v.InUse = v.InUse || volumes.Keeps(m, worker, v.VolumeRef)
			v.Left = volumes.IsLeft(m, worker, v.VolumeRef)
		}
		return list, nil
	})
}

const (
	// maxImageSources are named to a worker that is to fetch an image.
	maxImageSources = 8
	// MaxImagesGone are taken of what a worker says at a time.
	MaxImagesGone = 16
)

// ImageSources are the workers from which one copies an image rather than from its
// registry: those where it runs already, and those that are to run it, too, and come
// before this one in the order of their names. So the first of many that begin at once
// fetches it, all others wait for that, and nobody waits in a circle.
func ImageSources(m *state.Model, worker, image string) []rpc.ImageSource {
	found := map[string]bool{} // whether it is pending there
	mine := false
	for _, i := range m.Insts {
		s := m.Shares[i.App+"."+i.Service]
		if i.Worker == "" || s == nil || s.Spec == nil || s.Spec.Image != image {
			continue
		}
		if i.Worker == worker {
			mine = true
			continue
		}
		pending := i.State != wire.Running
		if was, there := found[i.Worker]; !there || was && !pending {
			found[i.Worker] = pending
		}
	}
	if !mine {
		return nil
	}
	var out []rpc.ImageSource
	for name, pending := range found {
		w := m.Workers[name]
		if w == nil || w.Info.Address == "" || w.Suspect || !w.Connected || !w.Revoked.IsZero() || pending &&
			name > worker {
			continue
		}
		out = append(out, rpc.ImageSource{Worker: name, Address: w.Info.Address, Pending: pending})
	}
	slices.SortFunc(out, func(a, b rpc.ImageSource) int {
		if a.Pending != b.Pending {
			if a.Pending {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.Worker, b.Worker)
	})
	return out[:min(len(out), maxImageSources)]
}
