package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxImageSources are named to a worker that is to fetch an image.
	maxImageSources = 8
	// maxImagesGone are taken of what a worker says at a time.
	maxImagesGone = 16
)

// ImageSources implements rest.Backend. A worker is told only of images that it is to
// run itself.
func (b backend) ImageSources(ctx context.Context, q wire.ImageAsk) (wire.ImageSources, error) {
	reply := wire.ImageSources{V: wire.Version}
	who := access.From(ctx)
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.name+"/")
	if !who.Node || !ok {
		return reply, wire.Problemf(403, "not-a-worker", "see images with verge image ls on the worker's machine", "not allowed", "only workers of the cluster copy images from each other")
	}
	if err := wire.CheckVersion("the question of a worker", q.V); err != nil {
		return reply, wire.Problemf(400, "wire-version", "use the same version of verge on both sides", "the question cannot be read", "%v", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range q.Gone[:min(len(q.Gone), maxImagesGone)] {
		b.events.Add(time.Now(), b.m.Tier(), "worker/"+b.name+"/"+worker, fmt.Sprintf("image %.300q (%s) was removed: %.200q", g.Image, api.Bytes(max(0, g.Size)), g.Why))
	}
	if q.Image == "" {
		return reply, nil
	}
	reply.Sources = b.m.imageSources(worker, q.Image)
	return reply, nil
}

// imageSources are the workers from which one copies an image rather than from its
// registry: those where it runs already, and those that are to run it, too, and come
// before this one in the order of their names. So the first of many that begin at once
// fetches it, all others wait for that, and nobody waits in a circle.
func (m *model) imageSources(worker, image string) []wire.ImageSource {
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
	var out []wire.ImageSource
	for name, pending := range found {
		w := m.Workers[name]
		if w == nil || w.Info.Address == "" || w.Suspect || !w.Connected || !w.Revoked.IsZero() || pending && name > worker {
			continue
		}
		out = append(out, wire.ImageSource{Worker: name, Address: w.Info.Address, Pending: pending})
	}
	slices.SortFunc(out, func(a, b wire.ImageSource) int {
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
