package wire

import (
	"time"

	"github.com/verge-edge/verge/api"
)

// Changes that operators make at a site while the root is away.

// LocalOrdinals is the first ordinal of instances that a site creates by itself. No root
// delegates ordinals that high, so no other cluster can have them.
const LocalOrdinals = 100_000

// LocalRevisions is the first revision that a site gives to services whose program or terms
// changed there. No root counts that high.
const LocalRevisions uint64 = 1 << 32

// Prefixes of the keys of a cluster's local changes and conflicts, beside its instances.
const (
	ReportedLocal    = "local/"    // + application.service: LocalChange
	ReportedConflict = "conflict/" // + its id: Conflict
)

// LocalChange is what an operator changed about one service at a site.
type LocalChange struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	// Namespace of the application.
	Namespace string `json:"namespace,omitempty"`
	App       string `json:"app"`
	Service   string `json:"service"`
	// Change in words: "scaled 2 → 4".
	Change string    `json:"change"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Base is the root's revision that was changed; 0 if the root did not run the service here.
	Base uint64 `json:"base,omitempty"`
	// Revision of the instances of the change, 0 if it is the root's.
	Revision uint64 `json:"revision,omitempty"`
	// Replicas that are to run at the site, and what each of them needs.
	Replicas int           `json:"replicas"`
	Needs    api.Resources `json:"needs,omitzero"`
	// Devices that each also needs.
	Devices []api.DeviceNeed `json:"devices,omitempty"`
	// AppNumber is the application's number in addresses that the site chose, 0 if the root
	// did.
	AppNumber uint32 `json:"app_number,omitempty"`
}

// Key is the changed service: "<application>.<service>".
func (l *LocalChange) Key() string { return l.App + "." + l.Service }

// Conflict is a local change that a later one of the root overrode. The site keeps it until
// somebody acknowledges it.
type Conflict struct {
	LocalChange
	ID string `json:"id"`
	// Root says in words what overrode it, RootRevision is its revision (0 if the root removed
	// the service).
	Root         string    `json:"root"`
	RootRevision uint64    `json:"root_revision,omitempty"`
	Found        time.Time `json:"found"`
	// Spec is the changed service, if more than the number of instances changed. Only the site
	// shows it.
	Spec *api.Service `json:"spec,omitempty"`
}
