package apiv1

import "github.com/verge-edge/verge/internal/wire/rpc"

// What a plan says of a service.
const (
	ServiceAdded     = "added"
	ServiceChanged   = "changed"
	ServiceScaled    = "scaled"
	ServiceRemoved   = "removed"
	ServiceUnchanged = "unchanged"
)

// Plan is what an apply would do. What is started is taken to become ready.
type Plan struct {
	ApplyResult
	Namespace string `json:"namespace"`
	// Source says who worked it out: "root", "cluster/edge".
	Source    string             `json:"source"`
	Services  []ServicePlan      `json:"services"`
	Instances []rpc.InstancePlan `json:"instances"`
	// Sites are the clusters that have a part in it (of a root's plan).
	Sites []PlanSite `json:"sites,omitempty"`
	Notes []string   `json:"notes,omitempty"`
	// Counts of Instances by what becomes of them. Restarts are those that are started
	// again, where they are or elsewhere (Moves of them).
	Starts   int `json:"starts"`
	Restarts int `json:"restarts"`
	Moves    int `json:"moves"`
	Stops    int `json:"stops"`
	// Waits counts those that nobody can take as they are to be; Placed: there are none.
	Waits  int  `json:"waits"`
	Placed bool `json:"placed"`
}

// PlanSite is a cluster that has a part in a plan.
type PlanSite struct {
	Cluster string `json:"cluster"`
	// Asked: it said itself what it would do. Else Why says why not, and what is said
	// of it is what the root knows.
	Asked bool   `json:"asked"`
	Why   string `json:"why,omitempty"`
	// AgeSeconds of its last report; negative if there was none.
	AgeSeconds float64 `json:"age_seconds"`
}

// ServicePlan is what becomes of a service.
type ServicePlan struct {
	Name   string        `json:"name"`
	Change string        `json:"change" enum:"added,changed,scaled,removed,unchanged"`
	Fields []FieldChange `json:"fields,omitempty"`
	// From and To are its replicas.
	From int `json:"from"`
	To   int `json:"to"`
	// Restarts: it is another program, so that what runs of it is started again.
	Restarts bool `json:"restarts,omitempty"`
	// Effect in words: "2 instances restart, 1 starts".
	Effect string `json:"effect"`
}

// FieldChange is one field that is to be otherwise. A text is "" where it is not
// set; what may be secret, or is long, is described and not shown.
type FieldChange struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}
