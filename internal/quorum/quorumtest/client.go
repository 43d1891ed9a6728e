package quorumtest

import (
	"time"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// client does one operation after the other.
type client struct {
	sim    *sim
	number int
	place  int // of the server that it asks first
	op     *operation
}

// operation of a client.
type operation struct {
	id, key   uint64
	write     bool
	value     uint64 // read; of a write it is id
	call, end time.Duration
	outcome   outcome
	client    int
}

type outcome int

const (
	open    outcome = iota // or unknown for ever
	done                   // as the client was told
	refused                // certainly without effect
)

// proposal is a write under way at a leader.
type proposal struct {
	op   *operation
	term uint64
}

// read is one under way.
type read struct {
	op    *operation
	index uint64
}

const clientTimeout = 2 * time.Second

func newClient(s *sim, number int) *client { return &client{sim: s, number: number} }

// hear tells of a leader.
func (c *client) hear(sv *server) {
	c.place = sv.place
	if s := c.sim; s.options.Probe && c.op != nil {
		c.op = nil // its outcome stays open
		s.after(0, c.next)
	}
}

// next begins another operation.
func (c *client) next() {
	s := c.sim
	if s.stopped || s.check.closed {
		return
	}
	key := uint64(s.rand.IntN(6)) + 6*uint64(s.now/(4*time.Second))
	c.op = s.check.begin(c.number, key, s.options.Probe || s.chance(0.7))
	op := c.op
	s.after(clientTimeout, func() {
		if c.op == op {
			c.finish(op, open)
		}
	})
	c.try(op)
}

// try asks a server.
func (c *client) try(op *operation) {
	if c.op != op {
		return
	}
	sv := c.sim.servers[c.place]
	if !sv.up {
		c.retry(op)
		return
	}
	sv.input(func() {
		if c.op != op {
			return // it has been given up, and the request with it
		}
		if err := sv.ask(op); err != nil {
			c.retry(op)
		}
	})
}

// retry asks another server: nothing was written.
func (c *client) retry(op *operation) {
	s := c.sim
	c.place = s.rand.IntN(len(s.servers))
	s.after(s.between(5*time.Millisecond, 20*time.Millisecond), func() { c.try(op) })
}

// finish ends an operation and begins another one a little later.
func (c *client) finish(op *operation, o outcome) {
	if op.outcome == open {
		op.outcome, op.end = o, c.sim.now
	}
	if c.op == op {
		c.op = nil
		c.sim.after(c.sim.between(10*time.Millisecond, 80*time.Millisecond), c.next)
	}
}

// ask proposes a write, or begins a read.
func (sv *server) ask(op *operation) error {
	s := sv.sim
	if !op.write {
		if err := sv.node.ReadIndex(op.id); err != nil {
			return err
		}
		sv.reads[op.id] = &read{op: op}
		return nil
	}
	padding := s.rand.IntN(200)
	if s.chance(0.4) {
		padding = s.rand.IntN(2000)
	}
	index, err := sv.node.Propose(encodeWrite(op.id, op.key, padding))
	if err != nil {
		return err
	}
	sv.pending[index] = proposal{op, sv.node.Status().Term}
	return nil
}

// acknowledge tells the client whose write is at an index.
func (sv *server) acknowledge(index, term uint64) {
	p, ok := sv.pending[index]
	if !ok {
		return
	}
	delete(sv.pending, index)
	c := sv.sim.clients[p.op.client]
	if p.term != term {
		c.finish(p.op, refused)
		return
	}
	sv.sim.check.acknowledged(sv, p.op, index, term)
	c.finish(p.op, done)
}

func (sv *server) confirm(r core.Read) {
	if rd := sv.reads[r.Context]; rd != nil {
		rd.index = r.Index
		delete(sv.reads, r.Context)
		sv.waiting = append(sv.waiting, rd)
		sv.answerReads()
	}
}

// answerReads answers the reads whose index is applied.
func (sv *server) answerReads() {
	applied := sv.node.Status().Applied
	rest := sv.waiting[:0]
	for _, rd := range sv.waiting {
		if rd.index > applied {
			rest = append(rest, rd)
			continue
		}
		if rd.op.outcome == open {
			rd.op.value = sv.machine.keys[rd.op.key]
			sv.sim.result.Reads++
		}
		sv.sim.clients[rd.op.client].finish(rd.op, done)
	}
	sv.waiting = rest
}

// lostLeadership leaves what is under way without an answer.
func (sv *server) lostLeadership() {
	for _, index := range sortedKeys(sv.pending) {
		op := sv.pending[index].op
		sv.sim.clients[op.client].finish(op, open)
	}
	for _, context := range sortedKeys(sv.reads) {
		op := sv.reads[context].op
		sv.sim.clients[op.client].finish(op, refused)
	}
	sv.pending, sv.reads = map[uint64]proposal{}, map[uint64]*read{}
}
