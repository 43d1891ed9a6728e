package wire

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
)

// Changes that operators make at a site while the root is away.

// LocalOrdinals is the first ordinal of instances that a site makes by itself.
// No root delegates that far, so that they can never be those of another cluster.
const LocalOrdinals = 100_000

// LocalRevisions is where the revisions begin that a site gives to services whose
// program or terms were changed there: no root counts that far.
const LocalRevisions uint64 = 1 << 32

// Keys below which a cluster reports its local changes and conflicts, beside its
// instances.
const (
	ReportedLocal    = "local/"    // + application.service: LocalChange
	ReportedConflict = "conflict/" // + its id: Conflict
)

// LocalChange says what an operator changed at a site about one service.
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
	// Base is the revision of the root's that was changed; 0 where the root did not
	// have the service here.
	Base uint64 `json:"base,omitempty"`
	// Revision that instances of the change carry: 0 where it is the root's.
	Revision uint64 `json:"revision,omitempty"`
	// Replicas that are to run at the site, and what each of them needs.
	Replicas int           `json:"replicas"`
	Needs    api.Resources `json:"needs,omitzero"`
	// Devices that each needs beside those.
	Devices []api.DeviceNeed `json:"devices,omitempty"`
	// AppNumber is what the site gave the application in addresses, 0 where the root
	// did.
	AppNumber uint32 `json:"app_number,omitempty"`
}

// Key is the service that the change is of: "<application>.<service>".
func (l *LocalChange) Key() string { return l.App + "." + l.Service }

// Conflict is a local change that gave way to what the root said later. It is
// kept at the site until somebody acknowledges it.
type Conflict struct {
	LocalChange
	ID string `json:"id"`
	// Root says in words what it gave way to, RootRevision is its revision (0 where
	// the root took the service away).
	Root         string    `json:"root"`
	RootRevision uint64    `json:"root_revision,omitempty"`
	Found        time.Time `json:"found"`
	// Spec is what the change had made of the service, where that was more than
	// another number. It is told at the site only.
	Spec *api.Service `json:"spec,omitempty"`
}

// ConflictProblems words conflicts for a list of problems.
func ConflictProblems(list []Conflict) []string {
	const most = 10
	var out []string
	for _, c := range list[:min(len(list), most)] {
		out = append(out, fmt.Sprintf("conflict %s at cluster %s: the local change of %s (%s, by %s) gave way to the root (%s)", c.ID, c.Cluster, c.Key(), c.Change, c.By, c.Root))
	}
	if more := len(list) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more conflicts between changes at sites and the root", more))
	}
	return out
}

// LocalView is all that was changed at a site, and what of it gave way.
type LocalView struct {
	Changes   []LocalChange `json:"changes"`
	Conflicts []Conflict    `json:"conflicts"`
}
