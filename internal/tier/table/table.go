package table

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
)

// Schema is what a tier stores. Its zero value is empty; kinds are added while packages are
// initialized, or before the first New.
type Schema struct {
	kinds    []kind
	byStage  []int // indexes of kinds in the order in which they are stored
	byPrefix []int // indexes of kinds, longest prefix first

	memories  []memory
	scratches int // how many there are
}

// kind is a Table without its type.
type kind interface {
	about() records.Kind
	stage() Stage
	matches(key string) bool
	isEssential() bool
	newRows() rows
}

// rows are the records of one kind in a DB.
type rows interface {
	load(e bus.Entry) error
	clone() rows
}

// changes are what a transaction changes of one kind.
type changes interface {
	each(yield func(key, group, leads string))
	op(key string) (bus.Op, error)
	drop(key string)
	merge()
	len() int
}

// Stage says when the records of a kind are stored in a transaction: before or after those of
// kinds that depend on them.
type Stage int

// Stages, in their order. Within one, kinds are stored in the order in which they were added.
const (
	First   Stage = iota - 1 // what others must not be stored without
	Middle                   // all else
	Derived                  // what must not be stored without that
	Last                     // what says that all else is stored
)

// Rules say how a kind differs from others. The zero value has no difference.
type Rules[T any] struct {
	Stage Stage
	// Group names the group in which a record is stored, with those of other kinds that
	// name the same. v is nil where the record is deleted. A nil Group: each record is a
	// group of its own.
	Group func(key string, v *T) string
	// Leads returns the prefix of the groups that are left as they are stored if this
	// record cannot be encoded, since they would be wrong without it.
	Leads func(key string) string
	// Essential records fail the whole transaction if one cannot be encoded.
	Essential bool
	// Keep returns what is kept in memory of a record that is stored, such as one without
	// its secret value. It may return v, and must not change it.
	Keep func(v *T) *T
	// Cold records stay in the store: they are neither loaded nor kept.
	Cold bool
	// Single is a kind of one record: its key is the prefix, and "" here.
	Single bool
	// Suffix ends all keys in the store; here they are without it.
	Suffix string
}

// Table is the records of one kind, by what follows the prefix in their keys.
type Table[T any] struct {
	index int
	kind  records.Kind
	rules Rules[T]
}

// Add adds a kind of records to a schema. It panics if there is one with that prefix, as
// that is a mistake of the program.
func Add[T any](s *Schema, k records.Kind, rules ...Rules[T]) *Table[T] {
	t := &Table[T]{index: len(s.kinds), kind: k}
	if len(rules) > 0 {
		t.rules = rules[0]
	}
	// Who is let in must never change unseen.
	t.kind.Security = k.Security || k.Fate == records.Stops
	for _, other := range s.kinds {
		if other.about().Prefix == k.Prefix {
			panic(fmt.Sprintf("table: two kinds of records with the prefix %q", k.Prefix))
		}
	}
	s.kinds = append(s.kinds, t)
	s.byStage = append(s.byStage, t.index)
	slices.SortStableFunc(s.byStage, func(a, b int) int { return cmp.Compare(s.kinds[a].stage(), s.kinds[b].stage()) })
	s.byPrefix = append(s.byPrefix, t.index)
	slices.SortStableFunc(s.byPrefix, func(a, b int) int {
		return cmp.Compare(len(s.kinds[b].about().Prefix), len(s.kinds[a].about().Prefix))
	})
	return t
}

// Kinds are the kinds of the schema, for who drops a record that cannot be read.
func (s *Schema) Kinds() []records.Kind {
	out := make([]records.Kind, len(s.kinds))
	for i, k := range s.kinds {
		out[i] = k.about()
	}
	return out
}

// Fate is what becomes of the tier if the record of a key cannot be read: that of its kind,
// or records.Holds.
func (s *Schema) Fate(key string) records.Fate {
	if i, ok := s.find(key); ok {
		return s.kinds[i].about().Fate
	}
	return records.Holds
}

func (s *Schema) find(key string) (index int, ok bool) {
	for _, i := range s.byPrefix {
		if s.kinds[i].matches(key) {
			return i, true
		}
	}
	return 0, false
}

// DB is the records of all kinds of a schema.
type DB struct {
	schema   *Schema
	rows     []rows
	memories []any // by index of the Memory
}

// New returns an empty DB.
func (s *Schema) New() *DB {
	db := &DB{schema: s, rows: make([]rows, len(s.kinds)), memories: make([]any, len(s.memories))}
	for i, k := range s.kinds {
		db.rows[i] = k.newRows()
	}
	for i, m := range s.memories {
		db.memories[i] = m.fresh()
	}
	return db
}

// Load adds a stored entry. known is false for one that is of no kind. A record that cannot
// be read is left out; one of a kind that is made anew (records.Again) is there without
// content, so that it is written or deleted like one that is out of date.
func (db *DB) Load(e bus.Entry) (known bool, err error) {
	i, ok := db.schema.find(e.Key)
	if !ok {
		return false, nil
	}
	return true, db.rows[i].load(e)
}

// Clone returns a DB with the same records and copies of the memories. Each can be changed
// without the other.
func (db *DB) Clone() *DB {
	c := &DB{schema: db.schema, rows: make([]rows, len(db.rows)), memories: make([]any, len(db.memories))}
	for i, r := range db.rows {
		c.rows[i] = r.clone()
	}
	for i, m := range db.schema.memories {
		c.memories[i] = m.clone(db.memories[i])
	}
	return c
}

func (t *Table[T]) about() records.Kind { return t.kind }

func (t *Table[T]) stage() Stage { return t.rules.Stage }

func (t *Table[T]) matches(key string) bool {
	return strings.HasPrefix(key, t.kind.Prefix) && strings.HasSuffix(key, t.rules.Suffix) && (!t.rules.Single || key == t.kind.Prefix)
}

// Key of the record in the store.
func (t *Table[T]) Key(key string) string { return t.kind.Prefix + key + t.rules.Suffix }

func (t *Table[T]) newRows() rows { return &tableRows[T]{t, map[string]*T{}} }

// tableRows are the records of a Table in a DB.
type tableRows[T any] struct {
	table *Table[T]
	byKey map[string]*T
}

func (r *tableRows[T]) clone() rows { return &tableRows[T]{r.table, maps.Clone(r.byKey)} }

func (r *tableRows[T]) load(e bus.Entry) error {
	if r.table.rules.Cold {
		return nil
	}
	key := strings.TrimSuffix(strings.TrimPrefix(e.Key, r.table.kind.Prefix), r.table.rules.Suffix)
	err := records.LoadInto(e, r.byKey, key, r.table.kind.Fate)
	if v := r.byKey[key]; v != nil && err == nil {
		r.byKey[key] = r.table.keep(v)
	}
	return err
}

func (t *Table[T]) keep(v *T) *T {
	if v == nil || t.rules.Keep == nil {
		return v
	}
	return t.rules.Keep(v)
}

// Rows are the records in a DB. Who has the lock of the DB may read them; they are changed
// by a Tx.
func (t *Table[T]) Rows(db *DB) map[string]*T { return db.rows[t.index].(*tableRows[T]).byKey }

// One is the record of a Single kind; nil if there is none.
func (t *Table[T]) One(db *DB) *T { return t.Rows(db)[""] }

// Get returns the record of a key as tx sees it; nil if there is none.
func (t *Table[T]) Get(tx *Tx, key string) *T {
	if c, ok := tx.changes[t.index].(*tableChanges[T]); ok {
		if v, changed := c.byKey[key]; changed {
			return v
		}
	}
	return t.Rows(tx.db)[key]
}

// Put stores v under key, or deletes what is there if v is nil. What is stored already is no
// change.
func (t *Table[T]) Put(tx *Tx, key string, v *T) {
	old, c := t.Rows(tx.db)[key], t.edit(tx)
	delete(c.encoded, key)
	if (old == nil) == (v == nil) && !t.rules.Cold && (v == nil || records.Same(old, v)) {
		delete(c.byKey, key)
		return
	}
	c.byKey[key] = v
}

// PutEncoded stores a record in the form in which it came, with fields that this version does
// not know, and returns it as it can be read here.
func (t *Table[T]) PutEncoded(tx *Tx, key string, value []byte) (*T, error) {
	v := new(T)
	if err := records.Load(bus.Entry{Key: t.Key(key), Value: value}, v); err != nil {
		return nil, err
	}
	c := t.edit(tx)
	c.byKey[key] = v
	if c.encoded == nil {
		c.encoded = map[string][]byte{}
	}
	c.encoded[key] = value
	return v, nil
}

// All returns the records as tx sees them, in no order.
func (t *Table[T]) All(tx *Tx) iter.Seq2[string, *T] {
	return records.Merged(t.Rows(tx.db), t.Changes(tx))
}

// Changes are what tx changes of the table; nil deletes.
func (t *Table[T]) Changes(tx *Tx) map[string]*T { return t.edit(tx).byKey }

func (t *Table[T]) edit(tx *Tx) *tableChanges[T] {
	c, ok := tx.changes[t.index].(*tableChanges[T])
	if !ok {
		c = &tableChanges[T]{rows: tx.db.rows[t.index].(*tableRows[T]), byKey: map[string]*T{}}
		tx.changes[t.index] = c
	}
	return c
}
