package gcpace

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// Room is how many bytes a busy process allocates between two collections where less
	// than that lives in its heap. With more, the ordinary rule gives it more.
	Room = 32 << 20

	// Large is the size of what lives in a heap from which on its garbage is collected
	// earlier than when it has doubled, but not before least percent have come to it.
	Large = 64 << 20

	ordinary, least = 100, 45 // GOGC; the first is what holds where nobody says anything
	// The runtime takes a heap of less than this for one of this size.
	smallest = 4 << 20

	// From busy on, in bytes allocated a second, a process has Room, until it allocates
	// less than calm for an interval. The ordinary rule collects a heap of 4 MB twice a
	// second at busy.
	busy = 8 << 20
	calm = 4 << 20
	// interval between two looks while a process is busy.
	interval = 5 * time.Second
	// shortest time over which allocations are measured: collections may come in bursts.
	shortest = 250 * time.Millisecond
)

// Percent is what GOGC is to be for a process with live bytes in its heap after its last
// collection which allocates rate bytes a second, and has percent now. room is Room, or 0
// for a process that gets none when it is busy.
func Percent(percent int, live uint64, rate float64, room uint64) int {
	rule := ordinary
	if live > Large {
		rule = max(least, int(ordinary*Large/live))
	}
	if rate < calm || percent <= ordinary && rate < busy {
		return rule
	}
	return max(rule, int(100*room/max(live, smallest)))
}

// worthwhile: changing GOGC stops all for a moment, and live heaps go up and down.
func worthwhile(from, to int) bool {
	return from != to && (to == ordinary || from == ordinary && to > ordinary || 4*max(from-to, to-from) > from)
}

// Run paces the collections of this process, one that has Room when it is busy, until ctx
// ends, and has the ordinary rule hold then. Who sets GOGC knows better: nothing is done
// then. A limit by GOMEMLIMIT holds all the same; the runtime collects as often as that
// needs. Either of Run and Bound may run, once at a time.
func Run(ctx context.Context) { pace(ctx, Room) }

// Bound is Run for a process that gets no Room: only a Large heap is paced.
func Bound(ctx context.Context) { pace(ctx, 0) }

func pace(ctx context.Context, room uint64) {
	if _, told := os.LookupEnv("GOGC"); told {
		return
	}
	p := &pacer{room: room, collected: make(chan struct{}, 1), percent: ordinary}
	p.last, p.allocated, _ = look()
	p.watch(ctx)
	timer := time.NewTimer(interval)
	timer.Stop()
	defer timer.Stop()
	defer p.set(ordinary)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.collected:
		case <-timer.C:
		}
		if p.adjust(); p.percent > ordinary {
			timer.Reset(interval)
		}
	}
}

// pacer belongs to the goroutine of Run, but for collected.
type pacer struct {
	room      uint64
	collected chan struct{}
	percent   int
	last      time.Time
	allocated uint64 // until last
}

// watch signals each collection. What nobody refers to is found by one, so that it costs
// nothing while there is none.
func (p *pacer) watch(ctx context.Context) {
	runtime.AddCleanup(new([16]byte), func(p *pacer) {
		if ctx.Err() != nil {
			return
		}
		select {
		case p.collected <- struct{}{}:
		default:
		}
		p.watch(ctx)
	}, p)
}

func (p *pacer) adjust() {
	now, allocated, live := look()
	took := now.Sub(p.last)
	if took < shortest {
		return
	}
	rate := float64(allocated-p.allocated) / took.Seconds()
	p.last, p.allocated = now, allocated
	p.set(Percent(p.percent, live, rate, p.room))
}

func (p *pacer) set(percent int) {
	if !worthwhile(p.percent, percent) {
		return
	}
	rested := percent <= ordinary && p.percent > ordinary
	p.percent = percent
	debug.SetGCPercent(percent)
	if rested {
		debug.FreeOSMemory() // what rests does not keep the garbage of its busy time
	}
}

// look reads what was allocated so far and what the last collection found alive, in bytes.
func look() (now time.Time, allocated, live uint64) {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return time.Now(), s[0].Value.Uint64(), s[1].Value.Uint64()
}
