package state

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/bus/records"
)

// Clone shares no state with m but records, which nobody modifies. TestAClone… finds
// what is forgotten here, and what is shared and modified after all.
func (m *Model) Clone() *Model {
	c := *m
	c.Rehearsing = true
	c.Bind(m.DB.Clone())
	c.Unread, c.Proven = slices.Clone(m.Unread), maps.Clone(m.Proven)
	maps.Copy(c.Shares, records.CloneEach(m.Shares)) // a pass may note in one what it has compared
	c.Clusters = records.CloneEach(m.Clusters)
	for _, cl := range c.Clusters {
		cl.Inbox = cl.Inbox.Heading() // it hears no reports
		cl.Seen, cl.Refused, cl.RevokedKeys = maps.Clone(cl.Seen), maps.Clone(cl.Refused), maps.Clone(cl.RevokedKeys)
		cl.Locals, cl.Conflicts, cl.Counters = maps.Clone(cl.Locals), maps.Clone(cl.Conflicts), maps.Clone(cl.Counters)
		cl.Losses, cl.Losing = nil, nil // nobody is told of a rehearsal
		cl.Rollouts, cl.Jobs, cl.Short = maps.Clone(cl.Rollouts), maps.Clone(cl.Jobs), records.CloneEach(cl.Short)
	}
	return &c
}
