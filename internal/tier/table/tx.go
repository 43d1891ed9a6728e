package table

import (
	"errors"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
)

// Tx collects changes of a DB until they are durable.
type Tx struct {
	db      *DB
	changes []changes // by index of the kind; nil where nothing changes
	// scratches by index of the Scratch; nil as long as nobody asks.
	scratches []any
}

// Begin starts a transaction. It costs one allocation; each kind that is changed costs two.
func (db *DB) Begin() *Tx { return &Tx{db: db, changes: make([]changes, len(db.rows))} }

// Len is how many records the transaction changes.
func (tx *Tx) Len() (n int) {
	for _, c := range tx.changes {
		if c != nil {
			n += c.len()
		}
	}
	return n
}

// Done makes the changes part of the DB, once they are durable. The transaction must not be
// used to change anything afterwards.
func (tx *Tx) Done() {
	for _, c := range tx.changes {
		if c != nil {
			c.merge()
		}
	}
}

// group is what is stored together.
type group struct {
	name string
	ops  []bus.Op
	of   []change // of each op
	err  error    // why it cannot be encoded
}

// change is one record of a transaction.
type change struct {
	kind       int
	key, leads string
}

// Encode returns the changes as groups of operations; no group is to be split. Where a
// record cannot be encoded, as a time or a number in it is none that JSON has, its group is
// taken out of the transaction, and with it the groups that it leads: they stay as they are
// stored. The error names all such records, and the groups are right beside it. If an
// essential record cannot be encoded there are no groups.
func (tx *Tx) Encode() ([][]bus.Op, error) {
	groups, err := tx.group()
	if err != nil {
		return nil, err
	}
	bad := tx.leave(groups)
	out := make([][]bus.Op, 0, len(groups))
	for _, g := range groups {
		if g.err == nil {
			out = append(out, g.ops)
		}
	}
	return out, bad
}

// group encodes all changes.
func (tx *Tx) group() (groups []*group, err error) {
	byName := map[string]*group{}
	for _, i := range tx.db.schema.byStage {
		c := tx.changes[i]
		if c == nil {
			continue
		}
		c.each(func(key, name, leads string) {
			op, opErr := c.op(key)
			if opErr != nil && tx.db.schema.kinds[i].isEssential() {
				err = errors.Join(err, opErr)
				return
			}
			g := byName[name]
			if g == nil {
				g = &group{name: name}
				byName[name] = g
				groups = append(groups, g)
			}
			if opErr != nil {
				g.err = errors.Join(g.err, opErr)
			}
			g.ops, g.of = append(g.ops, op), append(g.of, change{i, key, leads})
		})
	}
	return groups, err
}

// leave takes the groups that cannot be encoded out of the transaction.
func (tx *Tx) leave(groups []*group) error {
	var bad []error
	var led []string
	for _, g := range groups {
		if g.err == nil {
			continue
		}
		bad = append(bad, g.err)
		for _, ch := range g.of {
			if ch.leads != "" {
				led = append(led, ch.leads)
			}
		}
	}
	for _, g := range groups {
		if slices.ContainsFunc(led, func(prefix string) bool { return strings.HasPrefix(g.name, prefix) }) {
			g.err = errors.Join(g.err, errLed)
		}
		if g.err == nil {
			continue
		}
		for _, ch := range g.of {
			tx.changes[ch.kind].drop(ch.key)
		}
	}
	return errors.Join(bad...)
}

// errLed marks the groups that follow one that cannot be encoded.
var errLed = errors.New("it follows a record that cannot be encoded")

func (t *Table[T]) isEssential() bool { return t.rules.Essential }

// tableChanges are the changes of a Table in a Tx.
type tableChanges[T any] struct {
	rows  *tableRows[T]
	byKey map[string]*T
	// encoded are the values of PutEncoded.
	encoded map[string][]byte
}

func (c *tableChanges[T]) len() int { return len(c.byKey) }

func (c *tableChanges[T]) drop(key string) {
	delete(c.byKey, key)
	delete(c.encoded, key)
}

func (c *tableChanges[T]) each(yield func(key, group, leads string)) {
	t := c.rows.table
	for _, key := range records.SortedKeys(c.byKey) {
		name, leads := t.Key(key), ""
		if t.rules.Group != nil {
			name = t.rules.Group(key, c.byKey[key])
		}
		if t.rules.Leads != nil {
			leads = t.rules.Leads(key)
		}
		yield(key, name, leads)
	}
}

func (c *tableChanges[T]) op(key string) (bus.Op, error) {
	if value, ok := c.encoded[key]; ok && c.byKey[key] != nil {
		return bus.Put(c.rows.table.Key(key), value), nil
	}
	return records.Op(c.rows.table.Key(key), c.byKey[key])
}

func (c *tableChanges[T]) merge() {
	if c.rows.table.rules.Cold {
		return
	}
	for key, v := range c.byKey {
		if v == nil {
			delete(c.rows.byKey, key)
		} else {
			c.rows.byKey[key] = c.rows.table.keep(v)
		}
	}
}
