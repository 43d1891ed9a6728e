package core

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Node is one server's part in consensus. It is not safe for concurrent use.
type Node struct {
	cfg  Config
	raft *raft.RawNode
	log  *memLog
	conf *raftpb.ConfState // as of applied
	out  Ready

	now     time.Duration
	told    Role
	fault   error
	applied uint64

	position
	elections
	disk
	sums
}

// position is what raft has last said of itself.
type position struct {
	soft               raft.SoftState
	term, vote, commit uint64
	last               uint64 // index of the last entry, synced or not
	lastIsChange       bool
	serving            bool
	changeAt           uint64 // index of the last change of the members that was proposed here

	committedAt time.Duration        // when commit last rose
	heard       map[ID]time.Duration // last message of each peer
}

// disk is what is being saved, and how large it is.
type disk struct {
	unsaved  []*Append
	held     []*raftpb.Message // to a witness, until their entries are synced here
	full     bool
	mute     bool          // heartbeats are not answered
	handover time.Duration // when this leader last gave up its leadership for its disk; 0: never

	logBytes, snapshotBytes int // since the last snapshot; of it
}

// New is the node of a server with what it has found on its disk, at the time now.
func New(cfg Config, st State, now time.Duration) (n *Node, err error) {
	if cfg.ID == 0 || cfg.Timing.Tick <= 0 || cfg.Timing.ElectionTicks < 2 {
		return nil, fmt.Errorf("start consensus: server %s, tick %v, election after %d ticks: out of range",
			cfg.ID, cfg.Timing.Tick, cfg.Timing.ElectionTicks)
	}
	defer func() {
		if p := recover(); p != nil {
			n, err = nil, fmt.Errorf("start consensus with what is on the disk: %v", p)
		}
	}()
	log, now := newMemLog(st), max(now, 1) // zero is no time here
	n = &Node{cfg: cfg, log: log, now: now, conf: raftpb.EnsureConfState(log.snapshot.GetMetadata().GetConfState())}
	n.heard = map[ID]time.Duration{}
	n.sum = decodeSum(log.snapshot.GetData())
	n.applied, n.last = log.prev.index, log.last()
	n.logBytes, n.snapshotBytes = log.bytes, st.SnapshotSize
	n.commit = max(st.HardState.GetCommit(), log.prev.index)
	n.term, n.vote = st.HardState.GetTerm(), st.HardState.GetVote()
	if n.raft, err = raft.NewRawNode(cfg.raftConfig(log)); err != nil {
		return nil, fmt.Errorf("start consensus: %w", err)
	}
	n.moved = true
	n.told = n.role()
	n.nextTick = now + cfg.Timing.Tick
	n.do(func() {})
	return n, n.fault
}

// do runs an input. A panic of the library is a fault of this server: its log or its promises
// are not what the others have been told.
func (n *Node) do(input func()) {
	if n.fault != nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			n.fail(fmt.Errorf("consensus: %v", p))
		}
	}()
	input()
	n.collect()
	n.schedule()
	n.compareSums()
}

func (n *Node) fail(err error) {
	if n.fault == nil {
		n.fault, n.out, n.serving = err, Ready{}, false
	}
}

// Advance tells the time, which never goes back. Its zero is any moment.
func (n *Node) Advance(now time.Duration) {
	n.now = max(n.now, now)
	n.do(func() {
		n.tick()
		n.collect()
		n.watchDisk()
		n.campaign()
	})
}

// Step takes a message of a peer. One for another id, such as a former one of this machine, is
// dropped.
func (n *Node) Step(m *raftpb.Message) {
	if m == nil || ID(m.GetTo()) != n.cfg.ID || ID(m.GetFrom()) == n.cfg.ID {
		return
	}
	if raft.IsLocalMsg(m.GetType()) || m.GetType() == raftpb.MsgProp {
		return // of those no peer sends any
	}
	n.heard[ID(m.GetFrom())] = n.now
	refused := n.full && m.GetType() == raftpb.MsgApp && len(m.GetEntries()) > 0
	if refused {
		// The leader is alive, and that is all that this server takes note of.
		m = &raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), To: m.To, From: m.From, Term: m.Term}
	}
	n.do(func() {
		// The leader would answer at once with the same entries.
		n.mute = refused
		defer func() { n.mute = false }()
		// An answer of a server that is no member is refused, and of no use.
		_ = n.raft.Step(m)
		n.collect()
	})
}

// Propose adds a record. It is committed once the entry at index is applied with the term of
// this leadership; an entry of another term there means that the record is not, and never
// will be. An error says that nothing was written.
func (n *Node) Propose(data []byte) (index uint64, err error) {
	if n.full {
		return 0, ErrFull
	}
	return n.propose(kindRecord, data)
}

func (n *Node) propose(kind byte, data []byte) (index uint64, err error) {
	if n.fault != nil || !n.serving {
		return 0, ErrNotLeader
	}
	n.do(func() {
		if err = n.raft.Propose(framed(kind, data)); err != nil {
			err = ErrDropped
			return
		}
		n.collect()
		index = n.last
	})
	if n.fault != nil {
		return 0, ErrNotLeader
	}
	return index, err
}

// ReadIndex asks whether this server still leads. The answer is a Read with the context; none
// comes if the leadership is lost.
func (n *Node) ReadIndex(context uint64) error {
	if n.fault != nil || !n.serving {
		return ErrNotLeader
	}
	n.do(func() { n.raft.ReadIndex(encodeContext(context)) })
	return nil
}

// Saved says that an Append is synced, and all before it.
func (n *Node) Saved(a *Append) {
	n.do(func() {
		if i := slices.Index(n.unsaved, a); i >= 0 {
			n.unsaved = n.unsaved[i+1:]
		}
		if a.Snapshot != nil {
			n.installed(a.Snapshot)
		}
		if err := n.log.append(a.Entries); err != nil {
			panic(err)
		}
		for _, e := range a.Entries {
			n.logBytes += size(e)
		}
		n.release()
		n.deliver(a.responses)
	})
}

// installed takes over a snapshot that replaced the log and the state machine.
func (n *Node) installed(s *raftpb.Snapshot) {
	n.log.install(s)
	n.conf = s.GetMetadata().GetConfState()
	n.applied = s.GetMetadata().GetIndex()
	n.sums = sums{sum: decodeSum(s.GetData())}
	n.logBytes, n.snapshotBytes = 0, 0
}

// deliver hands responses of storage to raft, or lets them out.
func (n *Node) deliver(responses []*raftpb.Message) {
	for _, m := range responses {
		if ID(m.GetTo()) != n.cfg.ID {
			n.send(m)
		} else if err := n.raft.Step(m); err != nil {
			// It is of a time when this server was a member.
			continue
		}
	}
}

// Applied says that the records of an Apply are applied, and all before them.
func (n *Node) Applied(a *Apply) {
	n.do(func() {
		for _, e := range a.entries {
			if err := n.applyEntry(e); err != nil {
				n.fail(err)
				return
			}
		}
		n.deliver(a.responses)
		n.log.compact(n.applied, n.keep())
	})
}

func (n *Node) applyEntry(e *raftpb.Entry) error {
	n.applied = e.GetIndex()
	if e.GetTerm() == n.term && n.soft.RaftState == raft.StateLeader {
		n.serving = true
	}
	switch {
	case e.GetType() == raftpb.EntryConfChangeV2:
		cc := &raftpb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("change of the members in entry %d: %w", e.GetIndex(), err)
		}
		n.conf = n.raft.ApplyConfChange(cc)
		n.log.members = e.GetIndex()
		n.moved = true
	case e.GetType() != raftpb.EntryNormal:
		return fmt.Errorf("entry %d has type %v, which this version does not know", e.GetIndex(), e.GetType())
	case len(e.Data) == 0: // the first of a leadership; any, at a witness
	case e.Data[0] == kindRecord:
		n.add(e.GetIndex(), e.Data[1:])
	case e.Data[0] == kindMark:
		n.setMark(e.GetIndex())
		n.checkedAt, n.reportDue = n.now, true
	case e.Data[0] == kindCheck:
		return n.check(e.Data[1:])
	default:
		return fmt.Errorf("entry %d is of kind %d, which this version does not know", e.GetIndex(), e.Data[0])
	}
	return nil
}

// keep is how much of what is applied stays in memory. A witness has entries for nobody.
func (n *Node) keep() int {
	if n.cfg.ID.Witness() {
		return 0
	}
	return n.cfg.Limits.Keep
}

// Snapshot is the head of a snapshot of what is applied now: its content is the state machine,
// between two Applies.
func (n *Node) Snapshot() *raftpb.Snapshot {
	term, err := n.log.Term(n.applied)
	if err != nil {
		term = n.log.prev.term // not reached: compaction ends at applied
	}
	applied := n.applied
	return &raftpb.Snapshot{
		Data: encodeSum(n.sum),
		Metadata: &raftpb.SnapshotMetadata{
			Index: &applied, Term: &term, ConfState: proto.Clone(n.conf).(*raftpb.ConfState),
		},
	}
}

// SnapshotTaken says that a snapshot made with Snapshot is on disk, with so many bytes.
func (n *Node) SnapshotTaken(s *raftpb.Snapshot, size int) {
	n.do(func() {
		if s.GetMetadata().GetIndex() > n.log.snapshot.GetMetadata().GetIndex() {
			n.log.snapshot, n.log.wanted = s, false
			n.logBytes, n.snapshotBytes = 0, size
		}
	})
}

// SnapshotSent says what became of a message with a snapshot.
func (n *Node) SnapshotSent(to ID, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	if to == n.cfg.ID {
		return
	}
	n.do(func() { n.raft.ReportSnapshot(uint64(to), status) })
}

func (n *Node) wantsSnapshot() bool {
	if n.applied <= n.log.snapshot.GetMetadata().GetIndex() || n.log.last() < n.applied {
		return false
	}
	return n.log.wanted || n.logBytes > n.snapshotBytes+n.cfg.Limits.Log
}

// ID is that of this server.
func (n *Node) ID() ID { return n.cfg.ID }
