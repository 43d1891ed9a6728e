package table

// MemoryRules say what becomes of a Memory.
type MemoryRules[T any] struct {
	// New makes what there is at first; nil: a zero T.
	New func() *T
	// Clone copies it for a rehearsal, which shares nothing that anybody modifies; nil: a
	// rehearsal begins with a new one.
	Clone func(v *T) *T
	// Derived memories follow from records. A DB that is read again begins with a new one
	// instead of the one before.
	Derived bool
}

// Memory is what a package remembers of a DB in this process, beside records.
type Memory[T any] struct {
	index int
	rules MemoryRules[T]
}

// memory is a Memory without its type.
type memory interface {
	fresh() any
	clone(v any) any
	derived() bool
}

// Remember adds a memory to a schema.
func Remember[T any](s *Schema, rules MemoryRules[T]) *Memory[T] {
	if rules.New == nil {
		rules.New = func() *T { return new(T) }
	}
	m := &Memory[T]{len(s.memories), rules}
	s.memories = append(s.memories, m)
	return m
}

// Of is the memory of a DB. Who has the lock of the DB may read and change it.
func (m *Memory[T]) Of(db *DB) *T { return db.memories[m.index].(*T) }

func (m *Memory[T]) fresh() any { return m.rules.New() }

func (m *Memory[T]) derived() bool { return m.rules.Derived }

func (m *Memory[T]) clone(v any) any {
	if m.rules.Clone == nil {
		return m.rules.New()
	}
	return m.rules.Clone(v.(*T))
}

// Inherit takes over the memories of a DB that this one replaces, but for derived ones.
func (db *DB) Inherit(old *DB) {
	for i, m := range db.schema.memories {
		if !m.derived() {
			db.memories[i] = old.memories[i]
		}
	}
}

// Memories are those of the DB, for tests of what a clone shares.
func (db *DB) Memories() []any { return db.memories }

// Scratch is what a package works out in the course of a transaction, and forgets with it.
type Scratch[T any] struct{ index int }

// AddScratch adds a scratch to a schema.
func AddScratch[T any](s *Schema) *Scratch[T] {
	s.scratches++
	return &Scratch[T]{s.scratches - 1}
}

// Of is the scratch of a transaction. When it is first asked for, fresh makes it; nil: a
// zero T.
func (x *Scratch[T]) Of(tx *Tx, fresh func() *T) *T {
	if tx.scratches == nil {
		tx.scratches = make([]any, tx.db.schema.scratches)
	}
	v, ok := tx.scratches[x.index].(*T)
	if !ok {
		if v = new(T); fresh != nil {
			v = fresh()
		}
		tx.scratches[x.index] = v
	}
	return v
}
