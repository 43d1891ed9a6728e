package cluster

import "time"

// unwritten tells, once, what could not be stored; nil: nothing is left of it. The mutex is
// held.
func (c *core) unwritten(err error, now time.Time) {
	said := ""
	if err != nil {
		said = cut(err.Error(), maxWords)
	}
	if said == c.unstored {
		return
	}
	if c.unstored = said; said != "" {
		c.events.Add(now, c.m.Tier(), "cluster/"+c.name, "what was decided cannot be stored, and is left as it was: "+said)
		c.log.Error("what was decided cannot be stored, and is left as it was", "error", err)
	}
}
