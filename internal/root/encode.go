package root

import (
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// encode turns the tx into groups of ops that belong together. A record that cannot be
// written, of which a time or a number is none that JSON has, does not keep those of other
// services from being: what is of its service is left as it is stored. The error tells of
// all of them, and the groups are right beside it.
func (t *tx) encode() (groups [][]bus.Op, _ error) {
	if err := t.encodeNetwork(&groups); err != nil {
		return nil, err
	}
	each, bad := t.encodeInstances()
	for _, id := range records.SortedKeys(t.insts) {
		groups = append(groups, each[id])
	}
	note := func(err error) { bad = errors.Join(bad, err) }
	note(records.AppendEach(&groups, keySealed, t.seals))
	note(records.AppendEach(&groups, keyOver, t.over))
	note(records.AppendEach(&groups, keySchedule, t.schedules))
	// The share after its instances: a cluster must never be given what the root
	// does not remember having given.
	note(records.AppendEach(&groups, keyShare, t.shares))
	note(records.AppendEach(&groups, keyRoute, t.routes))
	note(records.AppendEach(&groups, keyRevoked, t.revoked))
	for _, name := range records.SortedKeys(t.apps) {
		if t.apps[name] == nil {
			g := []bus.Op{bus.Del(keyApp + name)}
			for _, r := range t.m.history[name] {
				g = append(g, bus.Del(revisionKey(name, r.Revision)))
			}
			groups = append(groups, g)
		}
	}
	if t.gone != nil && !records.Among(t.m.unread, keyTally+wire.TallyGone) {
		op, err := records.Op(keyTally+wire.TallyGone, t.gone)
		if err != nil {
			return nil, err
		}
		groups = append(groups, []bus.Op{op})
	}
	// Last: a cluster counts as asked when all that it said is stored.
	g, err := t.encodeRecovery()
	if err != nil {
		return nil, err
	}
	if len(g) > 0 {
		groups = append(groups, g)
	}
	return groups, bad
}

// encodeRecovery is what changes of a recovery and of what is settled.
func (t *tx) encodeRecovery() (g []bus.Op, err error) {
	if t.past != nil {
		err = records.Append(&g, backup.SettledKey, t.past)
	}
	if err == nil && (t.mark != nil || t.unmark) {
		err = records.Append(&g, backup.MarkKey, t.mark)
	}
	return g, err
}

func (t *tx) encodeInstance(id wire.InstanceID) (g []bus.Op, err error) {
	if err := records.Append(&g, keyInstance+id, t.insts[id]); err != nil {
		return nil, err
	}
	if w, ok := t.whys[id]; ok {
		if err := records.Append(&g, keyWhy+id, w); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// encodeInstances is a group for each instance that changes. The services of which an
// instance or a schedule cannot be written are taken out of the tx: their shares say what
// the clusters are given.
func (t *tx) encodeInstances() (groups map[wire.InstanceID][]bus.Op, _ error) {
	groups = make(map[wire.InstanceID][]bus.Op, len(t.insts))
	var bad []error
	var leave []string // app.service
	for _, id := range records.SortedKeys(t.insts) {
		g, err := t.encodeInstance(id)
		if err != nil {
			bad = append(bad, err)
			leave = append(leave, id[:max(0, strings.LastIndexByte(id, '.'))])
		}
		groups[id] = g
	}
	for _, key := range records.SortedKeys(t.schedules) {
		if _, err := records.Op(keySchedule+key, t.schedules[key]); err != nil {
			bad = append(bad, err)
			leave = append(leave, key)
		}
	}
	for _, key := range leave {
		maps.DeleteFunc(t.insts, func(id wire.InstanceID, _ *wire.Instance) bool { return strings.HasPrefix(id, key+".") })
		maps.DeleteFunc(t.shares, func(k string, _ *wire.Share) bool { return strings.HasSuffix(k, "."+key) })
		delete(t.schedules, key)
		delete(t.over, key)
		delete(t.routes, key)
		delete(t.touched, key)
		t.sorted = nil
	}
	return groups, errors.Join(bad...)
}

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
		c.events.Add(now, tier, tier, "what was decided cannot be stored, and is left as it was: "+said)
		c.log.Error("what was decided cannot be stored, and is left as it was", "error", err)
	}
}
