package quorumtest

import (
	"hash/crc64"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// checker knows what really happened.
type checker struct {
	sim *sim

	truth   map[uint64]truth // of each record that any server applied
	leaders map[uint64]core.ID
	votes   map[vote]uint64
	terms   map[core.ID]uint64
	disks   map[core.ID]*termLog

	acked       []ack
	operations  []*operation
	closed      bool // no further operations
	cutWhenBusy bool // the nemesis waits for two disks that write
	healedAt    time.Duration
	firstAck    time.Duration // after healing
}

type truth struct{ term, prev, sum uint64 }

type vote struct {
	id   core.ID
	term uint64
}

type ack struct {
	index uint64
	op    *operation
}

// termLog is what a disk has: the terms of all entries after base.
type termLog struct {
	base  uint64
	terms []uint64
}

func newChecker(s *sim) *checker {
	return &checker{
		sim: s, truth: map[uint64]truth{}, leaders: map[uint64]core.ID{}, votes: map[vote]uint64{},
		terms: map[core.ID]uint64{}, disks: map[core.ID]*termLog{},
	}
}

func sortedKeys[K ~uint64, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

var crcTable = crc64.MakeTable(crc64.ECMA)

// applied: equal records per index, in order, each once.
func (c *checker) applied(sv *server, r core.Record, last uint64) {
	t := truth{r.Term, last, crc64.Checksum(r.Data, crcTable)}
	if r.Index <= last {
		c.sim.fail("server %d applies record %d after %d", sv.place, r.Index, last)
	}
	if before, ok := c.truth[r.Index]; ok && before != t {
		c.sim.fail("server %d applies record %d of term %d after %d, others did %v", sv.place, r.Index, r.Term, last, before)
	}
	c.truth[r.Index] = t
}

// role: one leader per term.
func (c *checker) role(id core.ID, r core.Role) {
	if r.State != raft.StateLeader {
		return
	}
	if other, ok := c.leaders[r.Term]; ok && other != id {
		c.sim.fail("servers %s and %s both lead in term %d", other, id, r.Term)
	}
	c.leaders[r.Term] = id
}

// sent: a server votes once per term, and promises nothing in a term below one in which it has.
// Its other messages have terms that it may not have synced: also those of a leader, which needs
// the votes of a majority, and not its own among them.
func (c *checker) sent(id core.ID, m *raftpb.Message) {
	switch m.GetType() {
	case raftpb.MsgVoteResp:
		if m.GetReject() {
			return
		}
		v := vote{id, m.GetTerm()}
		if to, ok := c.votes[v]; ok && to != m.GetTo() {
			c.sim.fail("server %s votes twice in term %d", id, m.GetTerm())
		}
		c.votes[v] = m.GetTo()
		c.sim.vote.granted(c.sim, m)
	case raftpb.MsgAppResp:
	default:
		return
	}
	if m.GetTerm() < c.terms[id] {
		c.sim.fail("server %s sends %v of term %d after term %d", id, m.GetType(), m.GetTerm(), c.terms[id])
	}
	c.terms[id] = m.GetTerm()
}

func (c *checker) opened(id core.ID, st core.State) {
	l := &termLog{base: st.Snapshot.GetMetadata().GetIndex()}
	c.disks[id] = l
	l.add(st.Entries)
}

func (c *checker) installed(id core.ID, head *raftpb.Snapshot) {
	c.disks[id] = &termLog{base: head.GetMetadata().GetIndex()}
}

func (c *checker) saved(id core.ID, es []*raftpb.Entry) { c.disks[id].add(es) }

func (l *termLog) add(es []*raftpb.Entry) {
	for _, e := range es {
		if e.GetIndex() > l.base {
			l.terms = append(l.terms[:e.GetIndex()-l.base-1], e.GetTerm())
		}
	}
}

func (l *termLog) has(index, term uint64) bool {
	return l != nil && (index <= l.base || index-l.base <= uint64(len(l.terms)) && l.terms[index-l.base-1] == term)
}

// acknowledged: a majority has it on disk.
func (c *checker) acknowledged(sv *server, op *operation, index, term uint64) {
	if !slices.ContainsFunc(sv.members, func(m *raftpb.ConfState) bool { return c.haveMajority(m, index, term) }) {
		c.sim.fail("server %d acknowledges entry %d of term %d, which no majority has", sv.place, index, term)
	}
	c.acked = append(c.acked, ack{index, op})
	c.sim.result.Acknowledged++
	if c.healedAt > 0 && c.firstAck == 0 {
		c.firstAck = c.sim.now
	}
}

// haveMajority: of both halves of a joint configuration.
func (c *checker) haveMajority(m *raftpb.ConfState, index, term uint64) bool {
	for _, voters := range [][]uint64{m.Voters, m.VotersOutgoing} {
		n := 0
		for _, v := range voters {
			if c.disks[core.ID(v)].has(index, term) {
				n++
			}
		}
		if n <= len(voters)/2 && len(voters) > 0 {
			return false
		}
	}
	return true
}

func (c *checker) begin(client int, key uint64, write bool) *operation {
	op := &operation{id: uint64(len(c.operations) + 1), key: key, write: write, call: c.sim.now, client: client}
	c.operations = append(c.operations, op)
	return op
}

// finish checks what can only be seen in the end.
func (c *checker) finish() {
	s := c.sim
	s.result.Terms = len(c.leaders)
	for _, op := range c.operations {
		if op.write && op.outcome == open {
			s.result.Unknown++
		}
	}
	if s.result.Violation != nil {
		return
	}
	if c.firstAck == 0 || c.firstAck-c.healedAt > writeTime {
		for _, sv := range s.servers {
			s.say("server %d: %s up %t %+v", sv.place, sv.id, sv.up, sv.role)
		}
		s.fail("no write was acknowledged within %v after healing", writeTime)
		return
	}
	last := uint64(0)
	for _, sv := range s.servers {
		if sv.up && !sv.id.Witness() {
			last = max(last, sv.machine.last)
		}
	}
	for _, a := range c.acked {
		if _, ok := c.truth[a.index]; !ok || a.index > last {
			s.fail("the acknowledged record %d is lost: servers end at %d", a.index, last)
			return
		}
	}
	for _, sv := range s.servers {
		if !sv.up || !sv.id.Witness() && sv.machine.last != last {
			s.fail("server %d has not caught up after healing: up %t, record %d of %d", sv.place, sv.up, sv.machine.last, last)
			return
		}
	}
	c.linearizable()
}

// register is the model of one key: a write sets it, a read has the value of the last write.
var register = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		if in := input.(*operation); in.write {
			return true, in.id
		}
		return output.(uint64) == state.(uint64), state
	},
}

func (c *checker) linearizable() {
	keys := map[uint64][]porcupine.Operation{}
	for _, op := range c.operations {
		end := int64(op.end)
		switch {
		case op.outcome == refused, op.outcome == open && !op.write:
			continue
		case op.outcome == open:
			end = math.MaxInt64 // it may take effect at any time, or never
		}
		keys[op.key] = append(keys[op.key], porcupine.Operation{
			ClientId: op.client, Input: op, Output: op.value, Call: int64(op.call), Return: end,
		})
	}
	for _, k := range sortedKeys(keys) {
		if !porcupine.CheckOperations(register, keys[k]) {
			c.sim.fail("the history of key %d is not linearizable", k)
			return
		}
	}
}
