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
	// A process with a Large heap is busy where its garbage would be collected again within
	// often: marking what lives is then a good part of what it computes. It is calm again
	// where a quarter of that is allocated. Meanwhile there may be generous percent of
	// garbage, but not more than one part in share of what the machine has to spare.
	often    = 4 * time.Second
	generous = 200
	share    = 4
	// shortest time over which allocations are measured: collections may come in bursts.
	shortest = 250 * time.Millisecond
)

// Load is how much garbage a process makes.
type Load struct {
	Live uint64  // bytes in its heap after its last collection
	Rate float64 // bytes that it allocates a second
}

// Percent is what GOGC is to be for a process with a load, which has percent now. room is Room,
// or 0 for a process that gets none when it is busy, and spare the memory in bytes that the
// machine has for more; it is asked for a busy process with a Large heap alone.
func Percent(percent int, l Load, room uint64, spare func() uint64) int {
	rule := ruleOf(l.Live)
	if l.Live > Large {
		limit := float64(l.Live) * float64(rule) / 100 / often.Seconds()
		if percent > rule {
			limit /= 4
		}
		if l.Rate >= limit {
			rule = max(rule, min(generous, int(100*(spare()/share)/l.Live)))
		}
	}
	if l.Rate < calm || percent <= ordinary && l.Rate < busy {
		return rule
	}
	return max(rule, int(100*room/max(l.Live, smallest)))
}

// ruleOf is what GOGC is for a process with live bytes in its heap that is not busy.
func ruleOf(live uint64) int {
	if live > Large {
		return max(least, int(ordinary*Large/live))
	}
	return ordinary
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
	defer p.set(ordinary, false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.collected:
		case <-timer.C:
		}
		if p.adjust(); p.raised {
			timer.Reset(interval)
		}
	}
}

// pacer belongs to the goroutine of Run, but for collected.
type pacer struct {
	room      uint64
	collected chan struct{}
	percent   int
	raised    bool // percent is more than the rule
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
	l := Load{live, float64(allocated-p.allocated) / took.Seconds()}
	p.last, p.allocated = now, allocated
	percent := Percent(p.percent, l, p.room, spare)
	p.set(percent, percent > ruleOf(live))
}

func (p *pacer) set(percent int, raised bool) {
	rested := p.raised && !raised
	if p.raised = raised; !rested && !worthwhile(p.percent, percent) {
		return
	}
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
