package exchange

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
)

// What people have carried over the link (output of sessions, files, connections, logs)
// goes the same way as heartbeats, in order. On a thin line a few large answers take longer
// than a heartbeat may: the upper side would take this one for dead because somebody copies
// a file. So large answers go one at a time, each when the one before has nearly left, and
// none is larger than what leaves in bulkSpan. The other way, each session has one piece of
// its input on its way and no more.
const (
	// bulkBytes is the size from which an answer is a large one.
	bulkBytes = 8 << 10
	// bulkSpan is how long a large answer may be on its way: a small part of the shortest
	// silence that makes a worker suspect, 2.5 s.
	bulkSpan = 250 * time.Millisecond
	// Bounds of what the answer to one question may have, before it is encoded. The first
	// is small: nobody knows the line.
	firstBulk, leastBulk, mostBulk = 32 << 10, 4 << 10, 256 << 10
	// bulkWithin bounds the wait for an answer that leaves: behind a line that takes longer
	// nobody waits for it any more.
	bulkWithin = 30 * time.Second
	// bulkRest is how long a line may rest until it has to be found out again what it
	// carries.
	bulkRest = time.Minute
)

// bulk lets large answers pass.
type bulk struct {
	turn sync.Mutex // of the one that is on its way

	mu   sync.Mutex // guards below
	size int        // what the next ones may have; 0: firstBulk
	last time.Time  // when one has left
}

// most is how many bytes the answer to a question may have.
func (b *bulk) most() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.size == 0 || time.Since(b.last) > bulkRest {
		return firstBulk
	}
	return b.size
}

// send sends an answer of n bytes when it is its turn, and waits until it has left.
func (b *bulk) send(ctx context.Context, conn bus.Conn, n int, respond func() error) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, bulkWithin)
	defer cancel()
	if err := conn.Drained(ctx); err != nil {
		return err
	}
	begun := time.Now()
	if err := respond(); err != nil {
		return err
	}
	err := conn.Drained(ctx)
	b.left(n, time.Since(begun))
	return err
}

// left notes that n bytes needed a time to leave.
func (b *bulk) left(n int, took time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.size
	if was == 0 || time.Since(b.last) > bulkRest {
		was = firstBulk
	}
	// A third of what is sent is the encoding.
	fits := int(float64(n) * 3 / 4 * float64(bulkSpan) / float64(max(took, time.Millisecond)))
	b.size = max(leastBulk, min(fits, 2*was, mostBulk))
	b.last = time.Now()
}
