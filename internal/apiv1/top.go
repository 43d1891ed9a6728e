package apiv1

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ClusterTop is a cluster with what the instances on its workers use.
type ClusterTop struct {
	Name string `json:"name"`
	// Used by those of Workers that could be measured; Measured of them.
	Used       *rpc.Use      `json:"used,omitempty"`
	Problem    string        `json:"problem,omitempty"`
	Workers    int           `json:"workers"`
	Measured   int           `json:"measured"`
	Reserved   api.Resources `json:"reserved"`
	Capacity   api.Resources `json:"capacity"`
	Instances  int           `json:"instances"`
	AgeSeconds float64       `json:"age_seconds"`
}

// SumTop is a cluster made of its workers.
func SumTop(name string, workers []rpc.WorkerTopView) ClusterTop {
	out := ClusterTop{Name: name, Workers: len(workers)}
	for i, w := range workers {
		out.Instances += w.Instances
		for _, r := range []struct {
			to   *api.Resources
			from api.Resources
		}{{&out.Reserved, w.Reserved}, {&out.Capacity, w.Capacity}} {
			r.to.CPU += r.from.CPU
			r.to.Memory += r.from.Memory
			r.to.Disk += r.from.Disk
		}
		if i == 0 || w.AgeSeconds > out.AgeSeconds {
			out.AgeSeconds = w.AgeSeconds
		}
		if w.Used == nil {
			continue
		}
		out.Measured++
		if out.Used == nil {
			out.Used = &rpc.Use{}
		}
		out.Used.Add(*w.Used)
	}
	return out
}
