package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// What instances use now. It is measured when somebody asks, and only then.

// WorkerTop is what a worker has measured.
type WorkerTop struct {
	V int `json:"v"`
	// Span over which cpu was measured, in milliseconds.
	SpanMs    int64         `json:"span"`
	Instances []InstanceUse `json:"instances,omitempty"`
}

// InstanceUse is what an instance that runs uses.
type InstanceUse struct {
	ID InstanceID `json:"id"`
	Use
}

// Use of cpu in millicores, of memory in bytes, and processes and threads.
type Use struct {
	CPU    api.CPU   `json:"cpu"`
	Memory api.Bytes `json:"memory"`
	Tasks  int       `json:"tasks"`
}

// Bounded is u within what any machine has, so that sums stay sums whatever a node
// says.
func (u Use) Bounded() Use {
	const most = 1 << 50
	return Use{CPU: min(max(u.CPU, 0), most), Memory: min(max(u.Memory, 0), most), Tasks: min(max(u.Tasks, 0), 1<<30)}
}

// Add adds to it.
func (u *Use) Add(v Use) {
	u.CPU += v.CPU
	u.Memory += v.Memory
	u.Tasks += v.Tasks
}

// InstanceTop is an instance with what it uses and what it may.
type InstanceTop struct {
	ID        InstanceID `json:"id"`
	Namespace string     `json:"namespace,omitempty"`
	Cluster   string     `json:"cluster"`
	Worker    string     `json:"worker,omitempty"`
	State     State      `json:"state" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	// Used is missing where nobody could measure it; Problem says why.
	Used    *Use   `json:"used,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Reserved for it, and the bounds of what it may use beyond (0: none).
	Reserved api.Resources `json:"reserved"`
	Limits   api.Limits    `json:"limits,omitzero"`
	// AgeSeconds since its worker was heard of last.
	AgeSeconds float64 `json:"age_seconds"`
}

// WorkerTopView is a worker with what its instances use.
type WorkerTopView struct {
	Name      string        `json:"name"`
	Cluster   string        `json:"cluster"`
	Used      *Use          `json:"used,omitempty"`
	Problem   string        `json:"problem,omitempty"`
	Reserved  api.Resources `json:"reserved"`
	Capacity  api.Resources `json:"capacity"`
	Instances int           `json:"instances"`
	// AgeSeconds since it was heard of last; negative if never.
	AgeSeconds float64 `json:"age_seconds"`
}

// ClusterTop is a cluster with what the instances on its workers use.
type ClusterTop struct {
	Name string `json:"name"`
	// Used by those of Workers that could be measured; Measured of them.
	Used       *Use          `json:"used,omitempty"`
	Problem    string        `json:"problem,omitempty"`
	Workers    int           `json:"workers"`
	Measured   int           `json:"measured"`
	Reserved   api.Resources `json:"reserved"`
	Capacity   api.Resources `json:"capacity"`
	Instances  int           `json:"instances"`
	AgeSeconds float64       `json:"age_seconds"`
}

// TopPage is a part of a cluster's answer to "top" or "top-workers"; More: there
// is more after its last item.
type TopPage struct {
	At        time.Time       `json:"at"`
	Instances []InstanceTop   `json:"instances,omitempty"`
	Workers   []WorkerTopView `json:"workers,omitempty"`
	More      bool            `json:"more,omitempty"`
}

// SumTop is a cluster made of its workers.
func SumTop(name string, workers []WorkerTopView) ClusterTop {
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
			out.Used = &Use{}
		}
		out.Used.Add(*w.Used)
	}
	return out
}
