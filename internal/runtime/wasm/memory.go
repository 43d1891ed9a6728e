package wasm

import (
	"context"
	"errors"
	"sync"

	"github.com/tetratelabs/wazero/experimental" // WebAssembly in this process, without cgo
)

// errCrowded: what runs now takes the memory that another run would need.
var errCrowded = errors.New("the memory of the function is taken by other requests")

// budget is the memory limit of a task, for all that it runs at a time.
type budget struct {
	limit int64 // 0 is none

	mu    sync.Mutex // guards below
	used  int64
	freed chan struct{} // closed and replaced when some was given back
}

func newBudget(limit int64) *budget { return &budget{limit: limit, freed: make(chan struct{})} }

// take takes n bytes, or nothing.
func (b *budget) take(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit > 0 && n > b.limit-b.used {
		return false
	}
	b.used += n
	return true
}

// await takes n bytes as soon as they are there.
func (b *budget) await(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		freed := b.freed
		b.mu.Unlock()
		if b.take(n) {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return errCrowded
		}
	}
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	close(b.freed)
	b.freed = make(chan struct{})
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// purse is what one instance of a module has of the budget. Only the goroutine that
// runs the instance uses it.
type purse struct {
	of     *budget
	had    int64 // taken from the budget
	size   int64 // of its memory
	denied bool  // it wanted more than there was
}

var _ experimental.MemoryAllocator = (*purse)(nil)

// Allocate implements experimental.MemoryAllocator.
func (p *purse) Allocate(_, most uint64) experimental.LinearMemory {
	if p.of.limit > 0 {
		most = min(most, uint64(p.of.limit)) //nolint:gosec // positive
	}
	return &linear{purse: p, pages: reserve(most)}
}

// grow takes what a memory of size needs more.
func (p *purse) grow(size int64) bool {
	if size > p.had {
		if !p.of.take(size - p.had) {
			p.denied = true
			return false
		}
		p.had = size
	}
	p.size = size
	return true
}

// close gives everything back, once the memory is free.
func (p *purse) close() {
	p.of.give(p.had)
	p.had = 0
}

// linear is the memory of an instance. Its address never changes.
type linear struct {
	purse *purse
	pages []byte // reserved; what was never touched costs nothing
}

// Reallocate implements experimental.LinearMemory.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.pages)) {
		l.purse.denied = true
		return nil
	}
	if !l.purse.grow(int64(size)) { //nolint:gosec // at most what is reserved
		return nil
	}
	return l.pages[:size:size]
}

// Free implements experimental.LinearMemory.
func (l *linear) Free() {
	release(l.pages)
	l.pages = nil
}
