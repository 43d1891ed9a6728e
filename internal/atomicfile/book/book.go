// Package book remembers which value was given to which key, such as the port of a
// service: each value once, also after a restart of the process.
//
// It promises that a file which cannot be understood is set aside, said, and does not
// keep its owner from working: what is given follows from names in all its uses, so
// that nearly all of it comes out the same again. One of a newer form stays where it is.
package book

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
)

// Form of a book: how its records R, each with a key K and a value V, are stored.
type Form[R any, K, V comparable] struct {
	// Kind of its file.
	Kind *statefile.Kind
	// Of is what a record says.
	Of func(R) (K, V)
	// Decode reads a file: what is not fit is an error. Encode writes one.
	Decode func(data []byte) ([]R, error)
	Encode func(records []R) ([]byte, error)
}

// Book has one owner and no lock. Save makes durable what changed.
type Book[R any, K, V comparable] struct {
	form    Form[R, K, V]
	path    string
	records []R // in the order in which they were made
	by      map[K]V
	taken   map[V]K
	dirty   bool // differs from the file
}

// New is an empty book; path "" is one without a file.
func New[R any, K, V comparable](path string, form Form[R, K, V]) *Book[R, K, V] {
	return &Book[R, K, V]{form: form, path: path, by: map[K]V{}, taken: map[V]K{}}
}

// Open reads the book at path. One that is not there is empty. With an error, which
// says what was set aside, there is an empty book that can be used. One that this
// program does not know yet is a *statefile.NewerError, and is not saved either.
func Open[R any, K, V comparable](path string, form Form[R, K, V]) (*Book[R, K, V], error) {
	b := New(path, form)
	if path == "" {
		return b, nil
	}
	file, err := form.Kind.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if newer := (*statefile.NewerError)(nil); errors.As(err, &newer) {
		return b, err
	}
	var records []R
	if err == nil {
		records, err = form.Decode(file.Data)
	}
	if err == nil {
		err = b.fill(records)
	}
	if err == nil {
		return b, nil
	}
	aside := path + ".damaged"
	err = fmt.Errorf("%s in %s cannot be read, set aside as %s: %w", form.Kind.What, path, aside, err)
	if rerr := os.Rename(path, aside); rerr != nil {
		err = errors.Join(err, rerr)
	}
	return New(path, form), err
}

func (b *Book[R, K, V]) fill(records []R) error {
	for _, r := range records {
		k, v := b.form.Of(r)
		if other, twice := b.taken[v]; twice {
			return fmt.Errorf("%v and %v have both %v", other, k, v)
		}
		b.Put(r)
	}
	b.dirty = false
	return nil
}

// Get is the value of a key.
func (b *Book[R, K, V]) Get(k K) (V, bool) { v, ok := b.by[k]; return v, ok }

// At is the key that has a value.
func (b *Book[R, K, V]) At(v V) (K, bool) { k, ok := b.taken[v]; return k, ok }

// Records are all, the oldest first. Nobody changes the slice.
func (b *Book[R, K, V]) Records() []R { return b.records }

// Put adds a record, of whose key and value there is none.
func (b *Book[R, K, V]) Put(r R) {
	k, v := b.form.Of(r)
	b.records = append(b.records, r)
	b.by[k], b.taken[v] = v, k
	b.dirty = true
}

// Drop forgets a key.
func (b *Book[R, K, V]) Drop(k K) {
	b.records = slices.DeleteFunc(b.records, func(r R) bool { of, _ := b.form.Of(r); return of == k })
	delete(b.taken, b.by[k])
	delete(b.by, k)
	b.dirty = true
}

// DropOldest forgets the oldest key that inUse does not claim; false if there is none.
func (b *Book[R, K, V]) DropOldest(inUse func(K) bool) bool {
	for _, r := range b.records {
		if k, _ := b.form.Of(r); !inUse(k) {
			b.Drop(k)
			return true
		}
	}
	return false
}

// Save writes the book durably if it changed.
func (b *Book[R, K, V]) Save() error {
	if !b.dirty || b.path == "" {
		return nil
	}
	data, err := b.form.Encode(b.records)
	if err != nil {
		return fmt.Errorf("encode %s: %w", b.form.Kind.What, err)
	}
	if err := b.form.Kind.Put(b.path, data, atomicfile.Write); err != nil {
		return fmt.Errorf("store %s: %w", b.form.Kind.What, err)
	}
	b.dirty = false
	return nil
}
