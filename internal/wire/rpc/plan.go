package rpc

import "github.com/verge-edge/verge/internal/wire"

// A plan is what an apply would do, computed by the same passes on a copy of the state.

// AskPlan asks a cluster what it would do if its shares of one application were those of
// Ask.Plan. The answer is a SitePlan.
const AskPlan = "plan"

// PlanAsk has all shares that a cluster would have of an application; it would lose any others.
type PlanAsk struct {
	App    string       `json:"app"`
	Shares []wire.Share `json:"shares,omitempty"`
}

// SitePlan is what a cluster would do.
type SitePlan struct {
	V         int            `json:"v"`
	Instances []InstancePlan `json:"instances,omitempty"`
	// Notes in words: what gives way, and whether the plan is complete.
	Notes []string `json:"notes,omitempty"`
}

// What a plan says about an instance.
const (
	PlanKeep    = "keep"    // it runs on as it is
	PlanStart   = "start"   // it is new
	PlanRestart = "restart" // started again where it is
	PlanMove    = "move"    // started again on another worker
	PlanStop    = "stop"    // ended
	PlanLater   = "later"   // of a job: it starts when its turn comes
	PlanWait    = "wait"    // no worker can take it, or it stays unchanged for now
)

// InstancePlan is what becomes of an instance.
type InstancePlan struct {
	ID      wire.InstanceID `json:"id"`
	Service string          `json:"service"`
	Action  string          `json:"action" enum:"keep,start,restart,move,stop,later,wait"`
	// From is where it is, To where it would be: "edge/w1"; only the cluster if no more is
	// known.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Why  string `json:"why,omitempty"`
	// State that it would have.
	State wire.State `json:"state,omitempty" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	// Decisions that put it there, without their inputs.
	Decisions []Explained `json:"decisions,omitempty"`
}
