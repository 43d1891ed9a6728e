package cluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// encode turns the tx into ops, grouped so that what belongs to one instance
// is never split. A record that cannot be written, of which a time or a number is none
// that JSON has, does not keep the others from being: it is left as it is stored, and with
// it what belongs to it. The error tells of all of them, and the groups are right beside it.
func (t *tx) encode() ([][]bus.Op, error) {
	var groups [][]bus.Op
	var bad []error
	note := func(err error) {
		if err != nil {
			bad = append(bad, err)
		}
	}
	// Before the orders that need them.
	note(records.AppendEach(&groups, keySealed, t.seals))
	if err := t.net.encode(&groups); err != nil {
		return nil, err // no worker may be told a number that is not remembered
	}
	note(records.AppendEach(&groups, keyScaled, t.scaled))
	note(records.AppendEach(&groups, keyProfile, t.profiles))
	// Before the instance is elsewhere, or done with it: without them it stays.
	if err := records.AppendEach(&groups, keyLeftVolumes, t.leftVolumes); err != nil {
		return nil, err
	}
	note(records.AppendEach(&groups, keySnapshot, t.snapshots))
	// Before what it starts: what was started and is not in it would be updated again.
	note(encodeServices(t, &groups, keyRolling, t.rolls))
	// Before the instances that belong to a run.
	note(encodeServices(t, &groups, keyJob, t.jobs))
	note(t.encodeInstances(&groups))
	// A route and its name are one.
	for _, key := range records.SortedKeys(t.routes) {
		var g []bus.Op
		err := records.Append(&g, keyRoute+key, t.routes[key])
		if name, ok := t.names[key]; ok && err == nil {
			err = records.Append(&g, keyName+key, name)
		}
		if err != nil {
			delete(t.routes, key)
			delete(t.names, key)
			note(err)
			continue
		}
		groups = append(groups, g)
	}
	for _, key := range records.SortedKeys(t.orders) { // those of instances that do not change
		if _, id, _ := strings.Cut(key, "."); !t.changes(id) {
			note(alone(&groups, keyOrder, key, t.orders))
		}
	}
	for _, id := range records.SortedKeys(t.ups) {
		if !t.changes(id) {
			note(alone(&groups, keyUp, id, t.ups))
		}
	}
	locals, err := t.encodeLocals()
	if err != nil { // a conflict goes with the change that it was
		locals = nil
		clear(t.locals)
		clear(t.conflicts)
		clear(t.again)
		clear(t.upLocals)
		clear(t.upConflicts)
		note(err)
	}
	groups = append(groups, locals...)
	note(records.AppendEach(&groups, keyUpRollout, t.upRolls))
	note(records.AppendEach(&groups, keyUpJob, t.upJobs))
	note(records.AppendEach(&groups, keyTally, t.tallies))
	if t.mark != nil || t.unmark {
		// Last: a worker counts as heard when what it runs is stored.
		op, err := records.Op(backup.MarkKey, t.mark)
		if err != nil {
			return nil, err
		}
		groups = append(groups, []bus.Op{op})
	}
	return groups, errors.Join(bad...)
}

// changes says whether an instance is stored with this tx.
func (t *tx) changes(id wire.InstanceID) bool {
	_, ok := t.insts[id]
	return ok
}

// alone adds a group of one record, which is taken out of m where it cannot be written.
func alone[T any](groups *[][]bus.Op, prefix, key string, m map[string]*T) error {
	var g []bus.Op
	if err := records.Append(&g, prefix+key, m[key]); err != nil {
		delete(m, key)
		return err
	}
	*groups = append(*groups, g)
	return nil
}

// encodeServices adds records of services by their keys. Instances of a service whose record
// stays as it is stay as they are too: they belong to what it would say.
func encodeServices[T any](t *tx, groups *[][]bus.Op, prefix string, m map[string]*T) error {
	keys := records.SortedKeys(m)
	err := records.AppendEach(groups, prefix, m)
	if err == nil {
		return nil
	}
	for _, key := range keys {
		if _, written := m[key]; written {
			continue
		}
		for id := range maps.Clone(t.insts) {
			if strings.HasPrefix(id, key+".") {
				t.leave(id)
			}
		}
		delete(t.upRolls, key)
		delete(t.upJobs, key)
	}
	return err
}

// leave takes all that changes of an instance out of the tx.
func (t *tx) leave(id wire.InstanceID) {
	delete(t.insts, id)
	delete(t.whys, id)
	delete(t.ups, id)
	for key := range maps.Clone(t.orders) {
		if strings.HasSuffix(key, "."+id) {
			delete(t.orders, key)
		}
	}
	t.sorted = nil
}

// encodeInstances adds a group for each instance that changes: its record, why it is where
// it is, its orders, and what the root is told of it.
func (t *tx) encodeInstances(groups *[][]bus.Op) error {
	orders := map[wire.InstanceID][]string{} // keys of t.orders
	for _, key := range slices.Sorted(maps.Keys(t.orders)) {
		_, id, _ := strings.Cut(key, ".")
		orders[id] = append(orders[id], key)
	}
	var bad []error
	for _, id := range slices.Sorted(maps.Keys(t.insts)) {
		g, err := t.encodeInstance(id, orders[id])
		if err != nil {
			t.leave(id)
			bad = append(bad, err)
			continue
		}
		*groups = append(*groups, g)
	}
	return errors.Join(bad...)
}

func (t *tx) encodeInstance(id wire.InstanceID, orders []string) (g []bus.Op, err error) {
	if err := records.Append(&g, keyInstance+id, t.insts[id]); err != nil {
		return nil, err
	}
	if w, ok := t.whys[id]; ok {
		if err := records.Append(&g, keyWhy+id, w); err != nil {
			return nil, err
		}
	}
	for _, key := range orders {
		if err := records.Append(&g, keyOrder+key, t.orders[key]); err != nil {
			return nil, err
		}
	}
	if u, ok := t.ups[id]; ok {
		if err := records.Append(&g, keyUp+id, u); err != nil {
			return nil, err
		}
	}
	return g, nil
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
		c.events.Add(now, c.m.tier(), "cluster/"+c.name, "what was decided cannot be stored, and is left as it was: "+said)
		c.log.Error("what was decided cannot be stored, and is left as it was", "error", err)
	}
}
