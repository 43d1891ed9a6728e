package record

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Application is the stored form of an applied descriptor.
type Application struct {
	V        int    `json:"v"`
	Name     string `json:"name"`
	Revision uint64 `json:"revision"` // counts the applies that changed something, from 1
	// Source is the descriptor as it was sent; Spec is Source parsed.
	Source  string           `json:"source,omitempty"`
	Spec    *api.Application `json:"spec"`
	Created time.Time        `json:"created"`
	Applied time.Time        `json:"applied"`
	// Deleting since, zero if not. The record goes when the last instance is gone.
	Deleting time.Time `json:"deleting,omitzero"`
	// Scaled are the services whose number of replicas was set by a command, by
	// name, for as long as no file says otherwise.
	Scaled map[string]Scaled `json:"scaled,omitempty"`
	// Restarts are the latest marks of services, by name ("web"), and of single
	// instances that have later ones, by name and ordinal ("web.1").
	Restarts map[string]wire.Restart `json:"restarts,omitempty"`
	// Stops are the latest wishes to end the run of a job, by service; their N are from the
	// same count.
	Stops map[string]wire.Restart `json:"stops,omitempty"`
	// Changes counts the services that were added, changed, scaled or removed.
	Changes uint64 `json:"changes,omitempty"`
	// Recovered is set where a restored root learnt of it from clusters, until it is
	// applied again.
	Recovered *wire.Recovered `json:"recovered,omitempty"`
	// Unclaimed are services that a recovering root knew to be in clusters, none of
	// which holds anything of them: they were deleted, probably, after the backup or copy
	// was made. Nothing of them is started until somebody asks for it again.
	Unclaimed []string `json:"unclaimed,omitempty"`
	// Number is the application in addresses, as in Order; 0 until it was given one.
	Number uint32 `json:"number,omitempty"`
	// By whom this revision was applied, and Why and what it Changed, in words.
	By      string   `json:"by,omitempty"`
	Why     string   `json:"why,omitempty"`
	Changed []string `json:"changed,omitempty"`
	// Held says of each service whether it has held as this revision; nil of a revision that
	// was applied with a version that did not note it.
	Held map[string]bool `json:"held,omitempty"`
	// Holds are what people said about rollouts, by service.
	Holds map[string]wire.Hold `json:"holds,omitempty"`
	// RolledBack are the services that were brought back since their rollout failed, for
	// as long as nothing else is applied.
	RolledBack map[string]bool `json:"rolled_back,omitempty"`
}
