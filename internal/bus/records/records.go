// Package records keeps typed records in a bus.Store: how a role turns what it
// decided into operations, and loads it again.
package records

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"unsafe"

	"github.com/verge-edge/verge/internal/bus"
)

// Decode adds a stored entry to a map of records.
func Decode[T any](e bus.Entry, into map[string]*T, key string) error {
	v := new(T)
	if err := json.Unmarshal(e.Value, v); err != nil {
		return fmt.Errorf("stored record %s: %w", e.Key, err)
	}
	into[key] = v
	return nil
}

// Op stores v under key, or deletes key where v is nil.
func Op[T any](key string, v *T) (bus.Op, error) {
	if v == nil {
		return bus.Del(key), nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return bus.Op{}, fmt.Errorf("encoding %s: %w", key, err)
	}
	return bus.Put(key, b), nil
}

// Append adds an Op to a group of ops that belong together.
func Append[T any](group *[]bus.Op, key string, v *T) error {
	op, err := Op(key, v)
	if err == nil {
		*group = append(*group, op)
	}
	return err
}

// Commit writes groups in as few commits as their number and size allow, never
// splitting a group.
func Commit(ctx context.Context, store bus.Store, groups [][]bus.Op) error {
	var batch []bus.Op
	size := 0
	for i, g := range groups {
		batch = append(batch, g...)
		size += bytesOf(g)
		last := i+1 == len(groups)
		if last || len(batch)+len(groups[i+1]) > bus.MaxCommitOps || size+bytesOf(groups[i+1]) > bus.MaxCommitBytes {
			if _, err := store.Commit(ctx, batch...); err != nil {
				return err
			}
			batch, size = nil, 0
		}
	}
	return nil
}

func bytesOf(group []bus.Op) (n int) {
	for _, op := range group {
		n += len(op.Key) + len(op.Value)
	}
	return n
}

// CloneEach clones a map and the structs that it points to, each of them shallow; nil is
// nil.
func CloneEach[K comparable, V any](m map[K]*V) map[K]*V {
	if m == nil {
		return nil
	}
	out := make(map[K]*V, len(m))
	for key, v := range m {
		next := *v
		out[key] = &next
	}
	return out
}

// Merge applies changes to a map of records; nil deletes.
func Merge[T any](into, changes map[string]*T) {
	for k, v := range changes {
		if v == nil {
			delete(into, k)
		} else {
			into[k] = v
		}
	}
}

// Merged goes through what Merge would leave, in no order.
func Merged[T any](stored, changes map[string]*T) iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for k, v := range stored {
			if _, changed := changes[k]; !changed && !yield(k, v) {
				return
			}
		}
		for k, v := range changes {
			if v != nil && !yield(k, v) {
				return
			}
		}
	}
}

// Same compares two records as they are stored. Most that are compared are alike
// in memory too, which is found out in a sixth of the time; and most of these bit by
// bit, which takes next to none. Most others differ in a number or a text.
func Same(a, b any) bool {
	if identical(a, b) {
		return true
	}
	if differ(a, b) {
		return false
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// identical says whether two pointers lead to the same bits: values that share all
// they point to. Others may be alike all the same.
func identical(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() != reflect.Pointer || y.Kind() != reflect.Pointer || x.Type() != y.Type() || x.IsNil() || y.IsNil() {
		return false
	}
	bits := func(v reflect.Value) []byte {
		return unsafe.Slice((*byte)(v.UnsafePointer()), v.Type().Elem().Size()) //nolint:gosec // as many as the value has
	}
	return bytes.Equal(bits(x), bits(y))
}

// Identical says whether two records have the same bits: whether they are alike, and
// share all they point to. It is what Same asks first; here neither has to be on the heap.
func Identical[T any](a, b *T) bool {
	n := int(unsafe.Sizeof(*a))
	return bytes.Equal(unsafe.Slice((*byte)(unsafe.Pointer(a)), n), unsafe.Slice((*byte)(unsafe.Pointer(b)), n)) //nolint:gosec // as many as the value has
}

// SortedKeys of a map, the order in which decisions iterate.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
