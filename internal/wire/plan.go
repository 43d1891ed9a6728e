package wire

// What an apply would do: worked out by the same passes that would do it, on a copy
// of what is known.

// AskPlan is the Ask of a root for what a cluster would do with its shares of one
// application, were they those of Ask.Plan. The answer is a SitePlan.
const AskPlan = "plan"

// PlanAsk are all shares that a cluster would have of an application; what it has
// beside them would be taken away.
type PlanAsk struct {
	App    string  `json:"app"`
	Shares []Share `json:"shares,omitempty"`
}

// SitePlan is what a cluster would do.
type SitePlan struct {
	V         int            `json:"v"`
	Instances []InstancePlan `json:"instances,omitempty"`
	// Notes in words: what gives way, and whether the plan is whole.
	Notes []string `json:"notes,omitempty"`
}

// What a plan says of a service.
const (
	ServiceAdded     = "added"
	ServiceChanged   = "changed"
	ServiceScaled    = "scaled"
	ServiceRemoved   = "removed"
	ServiceUnchanged = "unchanged"
)

// What a plan says of an instance.
const (
	PlanKeep    = "keep"    // it runs on as it is
	PlanStart   = "start"   // it is new
	PlanRestart = "restart" // started again where it is
	PlanMove    = "move"    // started again on another worker
	PlanStop    = "stop"    // ended
	PlanLater   = "later"   // of a job: it starts when it is its turn
	PlanWait    = "wait"    // nobody can take it, or it runs on as it was meanwhile
)

// Plan is what an apply would do. What is started is taken to become ready.
type Plan struct {
	ApplyResult
	Namespace string `json:"namespace"`
	// Source says who worked it out: "root", "cluster/edge".
	Source    string         `json:"source"`
	Services  []ServicePlan  `json:"services"`
	Instances []InstancePlan `json:"instances"`
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

// InstancePlan is what becomes of an instance.
type InstancePlan struct {
	ID      InstanceID `json:"id"`
	Service string     `json:"service"`
	Action  string     `json:"action" enum:"keep,start,restart,move,stop,later,wait"`
	// From is where it is, To where it would be: "edge/w1"; the cluster alone where
	// that is all that is known.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Why  string `json:"why,omitempty"`
	// State that it would have.
	State State `json:"state,omitempty" enum:"Registered,Requested,ClusterScheduled,WorkerScheduled,Running,Terminated,Failed"`
	// Decisions that put it there, without their inputs.
	Decisions []Explained `json:"decisions,omitempty"`
}
