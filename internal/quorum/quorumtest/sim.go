package quorumtest

import (
	cryptorand "crypto/rand"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// Bug is one that is planted.
type Bug int

// Bugs.
const (
	NoBug         Bug = iota
	NoSync            // the log is not synced before it is acknowledged
	AckAtOne          // a write is acknowledged once the leader itself has it
	ForgetVote        // a restart loses the vote
	ApplyEarly        // records are applied when they are saved, not when they are committed
	ReuseID           // a server that lost its disk comes back under its id
	TornIsDamaged     // a torn batch is taken for damage
	DamagedIsTorn     // damage is taken for a torn batch
)

// Options of a run.
type Options struct {
	Servers int  // voters in the end
	Witness bool // the last of them is one
	Grow    bool // begin with one server, which the others join
	Faults  bool
	Lying   bool          // one disk lies about its syncs
	Span    time.Duration // with faults; healing comes on top
	Clients int
	Bug     Bug
	Probe   bool      // clients turn to each new leader at once
	Log     io.Writer // has all that happens, line by line; nil: nobody
}

// Result of a run.
type Result struct {
	Violation    error // nil: everything held
	Acknowledged int   // writes
	Reads        int
	Unknown      int // writes of unknown outcome
	Terms        int // in which there was a leader
	Snapshots    int // taken over from a leader
	Quarantined  int
	Replaced     int    // members that another id took the place of
	Torn         int    // batches cut off at a start
	Trace        uint64 // a hash of all that happened
}

// sim is one run.
type sim struct {
	options Options
	rand    *rand.Rand
	now     time.Duration
	queue   events
	seq     uint64
	trace   uint64 // a hash of what was noted

	servers []*server
	net     *network
	clients []*client
	check   *checker
	vote    voteTwice
	former  map[core.ID]bool // ids whose removal was applied anywhere
	result  Result
	healed  bool
	stopped bool
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

// events are a heap, the next one first.
type events []event

func (q events) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q *events) push(e event) {
	*q = append(*q, e)
	for i := len(*q) - 1; i > 0 && q.before(i, (i-1)/2); i = (i - 1) / 2 {
		(*q)[i], (*q)[(i-1)/2] = (*q)[(i-1)/2], (*q)[i]
	}
}

func (q *events) pop() event {
	e, last := (*q)[0], len(*q)-1
	(*q)[0], (*q)[last] = (*q)[last], event{}
	*q = (*q)[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return e
		}
		if child+1 < last && q.before(child+1, child) {
			child++
		}
		if !q.before(child, i) {
			return e
		}
		(*q)[i], (*q)[child] = (*q)[child], (*q)[i]
		i = child
	}
}

// after has something done later.
func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	s.queue.push(event{s.now + d, s.seq, do})
}

// between draws a time.
func (s *sim) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rand.Int64N(int64(to-from)+1))
}

func (s *sim) chance(p float64) bool { return s.rand.Float64() < p }

// note makes something part of the trace.
func (s *sim) note(what string, values ...uint64) {
	h := s.trace
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * 1099511628211
	}
	h = (h ^ uint64(s.now)) * 1099511628211 //nolint:gosec // not negative
	for _, v := range values {
		h = (h ^ v) * 1099511628211
		h ^= h >> 32
	}
	s.trace = h
	if s.options.Log != nil {
		s.say("%v %s %x", s.now, what, values)
	}
}

// say tells people.
func (s *sim) say(format string, args ...any) {
	if s.options.Log != nil {
		_, _ = fmt.Fprintf(s.options.Log, format+"\n", args...) // there is nobody to tell of a failure
	}
}

// fail ends the run with a violation; the first one counts.
func (s *sim) fail(format string, args ...any) {
	if s.result.Violation == nil {
		s.result.Violation = fmt.Errorf("after %v: "+format, append([]any{s.now}, args...)...)
	}
	s.stopped = true
}

// runUntil handles all events up to a time.
func (s *sim) runUntil(end time.Duration) {
	for !s.stopped && len(s.queue) > 0 && s.queue[0].at <= end {
		e := s.queue.pop()
		s.now = e.at
		e.do()
	}
	if !s.stopped {
		s.now = end
	}
}

// global guards crypto/rand.Reader, from which raft draws how long it waits for elections.
var global sync.Mutex

// seeded runs f with a seed as the only source of chance.
func seeded(seed uint64, f func(*rand.Rand)) {
	global.Lock()
	defer global.Unlock()
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	before := cryptorand.Reader
	defer func() { cryptorand.Reader = before }()
	cryptorand.Reader = rand.NewChaCha8(key)
	f(rand.New(rand.NewPCG(seed, 1)))
}

func newSim(r *rand.Rand, o Options) *sim {
	s := &sim{options: o, rand: r, trace: 14695981039346656037, former: map[core.ID]bool{}}
	s.check = newChecker(s)
	s.net = newNetwork(s)
	ids := make([]core.ID, o.Servers)
	for i := range ids {
		ids[i] = s.newID(o.Witness && i == o.Servers-1)
	}
	voters := ids
	if o.Grow {
		voters = ids[:1]
	}
	for i, id := range ids {
		s.servers = append(s.servers, newServer(s, i, id))
		if i < len(voters) {
			s.servers[i].create(voters)
		} else {
			s.servers[i].create(nil)
		}
	}
	for i := range o.Clients {
		s.clients = append(s.clients, newClient(s, i))
	}
	s.after(0, s.manage)
	return s
}

func (s *sim) newID(witness bool) core.ID {
	id, err := core.NewID(cryptorand.Reader, witness)
	if err != nil {
		panic(err) // the source is a generator
	}
	return id
}

// Run simulates one seed. Runs are one after the other, whoever calls.
func Run(seed uint64, o Options) (result Result) {
	seeded(seed, func(r *rand.Rand) {
		s := newSim(r, o)
		s.start()
		if o.Faults {
			s.after(time.Second, s.nemesis)
		}
		s.runUntil(o.Span)
		s.heal()
		s.runUntil(s.now + healTime)
		s.check.finish()
		s.result.Trace = s.trace
		result = s.result
	})
	return result
}

// healTime is how long a run goes on after healing: a write has to succeed within writeTime, and
// then all servers have to catch up.
const (
	writeTime = 5 * time.Second
	healTime  = writeTime + 2*time.Second
)

func (s *sim) start() {
	for _, sv := range s.servers {
		sv.start()
	}
	for _, c := range s.clients {
		s.after(s.between(0, 100*time.Millisecond), c.next)
	}
}
