package core

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Ready is what is to be done after an input.
type Ready struct {
	Messages []*raftpb.Message // to send; one with a snapshot needs its content as well, but to a witness
	Appends  []*Append         // to save, in order
	Applies  []*Apply          // to apply, in order
	Reads    []Read            // reads that are confirmed
	Role     *Role             // the new one, where it has changed

	// TakeSnapshot asks for a snapshot of what is applied: it is written to disk, then
	// SnapshotTaken is called. Until then each Ready asks.
	TakeSnapshot bool

	// Wake is when Advance has to be called; zero: there is nothing to wait for.
	Wake time.Duration

	// Fault says why this server has to be quarantined. Then there is nothing else.
	Fault error
}

// Append is to be saved: first the snapshot, then hard state and entries at once. An entry
// replaces one with its index, and all after that.
type Append struct {
	HardState *raftpb.HardState // nil: unchanged
	Entries   []*raftpb.Entry
	// Snapshot is one from the leader that replaces everything before it, the state machine
	// included; nil mostly.
	Snapshot *raftpb.Snapshot

	responses []*raftpb.Message
	since     time.Duration
}

// Apply has records in the order in which they are applied.
type Apply struct {
	Records []Record

	entries   []*raftpb.Entry
	responses []*raftpb.Message
}

// Record is one that was proposed, by whichever server, and is committed.
type Record struct {
	Index, Term uint64
	Data        []byte
}

// Read confirms a ReadIndex: the server was still the leader at a moment after that call.
// What is read after Index is applied is the truth of that moment.
type Read struct {
	Context uint64
	Index   uint64
}

// Role of a server.
type Role struct {
	State  raft.StateType
	Term   uint64
	Leader ID // 0: none is known
	// Serving leaders have applied everything from before their term. Only they propose.
	Serving bool
}

// Ready takes what has accumulated since the last call.
func (n *Node) Ready() Ready {
	if n.fault != nil {
		r := Ready{Fault: n.fault}
		n.out = Ready{}
		return r
	}
	out := n.out
	n.out = Ready{}
	if role := n.role(); role != n.told {
		n.told = role
		out.Role = &role
	}
	out.TakeSnapshot = n.wantsSnapshot()
	out.Wake = n.wake()
	return out
}

// collect moves what raft has ready into n.out.
func (n *Node) collect() {
	for n.raft.HasReady() {
		rd := n.raft.Ready()
		if rd.HardState != nil && !raft.IsEmptyHardState(rd.HardState) {
			n.noteHardState(rd.HardState)
		}
		if rd.SoftState != nil {
			n.noteSoftState(*rd.SoftState)
		}
		for _, s := range rd.ReadStates {
			n.out.Reads = append(n.out.Reads, Read{Context: contextOf(s.RequestCtx), Index: s.Index})
		}
		for _, m := range rd.Messages {
			n.dispatch(m)
		}
	}
}

func (n *Node) dispatch(m *raftpb.Message) {
	switch m.GetTo() {
	case raft.LocalAppendThread:
		a := &Append{Entries: m.GetEntries(), Snapshot: m.GetSnapshot(), responses: m.GetResponses(), since: n.now}
		if m.Term != nil {
			a.HardState = &raftpb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		}
		if len(a.Entries) > 0 {
			n.last = a.Entries[len(a.Entries)-1].GetIndex()
			n.lastIsChange = a.Entries[len(a.Entries)-1].GetType() == raftpb.EntryConfChangeV2
		} else if a.Snapshot != nil {
			n.last = a.Snapshot.GetMetadata().GetIndex()
		}
		n.unsaved = append(n.unsaved, a)
		n.out.Appends = append(n.out.Appends, a)
	case raft.LocalApplyThread:
		a := &Apply{entries: m.GetEntries(), responses: m.GetResponses()}
		for _, e := range a.entries {
			if data, ok := recordOf(e); ok {
				a.Records = append(a.Records, Record{Index: e.GetIndex(), Term: e.GetTerm(), Data: data})
			}
		}
		n.out.Applies = append(n.out.Applies, a)
	default:
		n.send(m)
	}
}

// send lets a message out, unless a witness is concerned that it is not for.
func (n *Node) send(m *raftpb.Message) {
	if n.cfg.ID.Witness() && (m.GetType() == raftpb.MsgVote || m.GetType() == raftpb.MsgPreVote) {
		return // so it never leads
	}
	if n.mute && m.GetType() == raftpb.MsgHeartbeatResp {
		return
	}
	if m.GetType() == raftpb.MsgApp && ID(m.GetTo()).Witness() {
		if n.fullVotersWell() {
			return
		}
		if m.Entries = withoutData(m.GetEntries()); lastOf(m.Entries) > n.log.last() {
			n.held = append(n.held, m)
			return
		}
	}
	n.out.Messages = append(n.out.Messages, m)
}

// lastOf is the index of the last entry; 0: there is none.
func lastOf(es []*raftpb.Entry) uint64 {
	if len(es) == 0 {
		return 0
	}
	return es[len(es)-1].GetIndex()
}

// release sends a witness what is synced here by now. A witness that had entries which no server
// with a state has would refuse its vote to all of them, for ever.
func (n *Node) release() {
	if n.soft.RaftState != raft.StateLeader {
		n.held = nil
	}
	i := 0
	for i < len(n.held) && lastOf(n.held[i].Entries) <= n.log.last() {
		if n.held[i].GetTerm() == n.term {
			n.out.Messages = append(n.out.Messages, n.held[i])
		}
		i++
	}
	n.held = n.held[i:]
}

// withoutData keeps changes of the members: a witness has to know who votes.
func withoutData(es []*raftpb.Entry) []*raftpb.Entry {
	out := make([]*raftpb.Entry, len(es))
	for i, e := range es {
		if out[i] = e; e.GetType() == raftpb.EntryNormal {
			out[i] = &raftpb.Entry{Index: e.Index, Term: e.Term, Type: e.Type}
		}
	}
	return out
}

func (n *Node) noteHardState(hs *raftpb.HardState) {
	if hs.GetTerm() != n.term || hs.GetVote() != n.vote {
		n.term, n.vote = hs.GetTerm(), hs.GetVote()
		n.moved = true
	}
	if hs.GetCommit() != n.commit {
		n.commit, n.committedAt = hs.GetCommit(), n.now
	}
}

func (n *Node) noteSoftState(s raft.SoftState) {
	if s.Lead != n.soft.Lead {
		n.moved = true
	}
	if s.RaftState != n.soft.RaftState || s.Lead != n.soft.Lead {
		n.serving = false
	}
	if s.RaftState == raft.StateLeader && n.soft.RaftState != raft.StateLeader {
		n.committedAt, n.handover = n.now, 0
		clear(n.heard)
	}
	n.soft = s
}

func (n *Node) role() Role {
	return Role{State: n.soft.RaftState, Term: n.term, Leader: ID(n.soft.Lead), Serving: n.serving}
}
