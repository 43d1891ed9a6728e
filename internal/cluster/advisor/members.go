package advisor

import (
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/tier/table"
)

// Members are the plugins that have joined, by name and key.
var Members = table.Add[Member](&state.Schema, records.Kind{
	Prefix: KeyMember, Fate: records.Aside, Security: true,
	Drop: "the plugin is unknown, and joins again with a new token",
})

// KeyMember + plugin.hash of its key: member.
const KeyMember = "plugin."

// Member is a process that may be a plugin.
type Member struct {
	V       int       `json:"v"`
	Joined  time.Time `json:"joined"`
	NatsKey string    `json:"nats_key"`
	KeyHash string    `json:"key_hash"`
	Expires time.Time `json:"expires"`
	Renewed time.Time `json:"-"` // the last time, by the monotonic clock of this process
}
