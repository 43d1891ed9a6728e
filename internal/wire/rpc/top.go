package rpc

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// What instances use now is measured only when somebody asks.

// WorkerTop is what a worker has measured.
type WorkerTop struct {
	V int `json:"v"`
	// Span over which cpu was measured, in milliseconds.
	SpanMs    int64         `json:"span"`
	Instances []InstanceUse `json:"instances,omitempty"`
}

// InstanceUse is what an instance that runs uses.
type InstanceUse struct {
	ID wire.InstanceID `json:"id"`
	Use
}

// Use of cpu in millicores, of memory in bytes, and processes and threads.
type Use struct {
	CPU    api.CPU   `json:"cpu"`
	Memory api.Bytes `json:"memory"`
	Tasks  int       `json:"tasks"`
}

// Bounded limits u to what any machine can have, so that sums do not overflow whatever a node
// says.
func (u Use) Bounded() Use {
	const most = 1 << 50
	return Use{CPU: min(max(u.CPU, 0), most), Memory: min(max(u.Memory, 0), most), Tasks: min(max(u.Tasks, 0), 1<<30)}
}

// Add adds v to u.
func (u *Use) Add(v Use) {
	u.CPU += v.CPU
	u.Memory += v.Memory
	u.Tasks += v.Tasks
}

// InstanceTop is an instance with what it uses and may use.
type InstanceTop struct {
	ID        wire.InstanceID `json:"id"`
	Namespace string          `json:"namespace,omitempty"`
	Cluster   string          `json:"cluster"`
	Worker    string          `json:"worker,omitempty"`
	State     wire.State      `json:"state" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	// Used is missing if it could not be measured; Problem says why.
	Used    *Use   `json:"used,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Reserved for it, and the limits of what it may use beyond (0: none).
	Reserved api.Resources `json:"reserved"`
	Limits   api.Limits    `json:"limits,omitzero"`
	// AgeSeconds since its worker last reported.
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
	// AgeSeconds since it last reported; negative if never.
	AgeSeconds float64 `json:"age_seconds"`
}

// TopPage is a part of a cluster's answer to "top" or "top-workers"; More: there
// is more after its last item.
type TopPage struct {
	At        time.Time       `json:"at"`
	Instances []InstanceTop   `json:"instances,omitempty"`
	Workers   []WorkerTopView `json:"workers,omitempty"`
	More      bool            `json:"more,omitempty"`
}
