package core

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// group are servers whose messages arrive at once, unless drop says otherwise.
type group struct {
	t       *testing.T
	now     time.Duration
	nodes   map[ID]*Node
	ids     []ID
	drop    func(*raftpb.Message) bool
	stalled map[ID]bool // whose disk does not answer
	appends map[ID][]*Append
	records map[ID][]Record
	reads   []Read
	sent    []*raftpb.Message
	wake    map[ID]time.Duration
	faults  map[ID]error

	noSnapshots bool
}

func newGroup(t *testing.T, ids ...ID) *group {
	g := &group{
		t: t, nodes: map[ID]*Node{}, ids: ids, stalled: map[ID]bool{}, appends: map[ID][]*Append{}, records: map[ID][]Record{},
		wake: map[ID]time.Duration{}, faults: map[ID]error{}, drop: func(*raftpb.Message) bool { return false },
	}
	for _, id := range ids {
		g.add(id, ids...)
	}
	g.settle()
	return g
}

func (g *group) add(id ID, voters ...ID) {
	one := uint64(1)
	st := State{HardState: &raftpb.HardState{Commit: &one, Term: &one}}
	cs := &raftpb.ConfState{}
	for _, v := range voters {
		cs.Voters = append(cs.Voters, uint64(v))
	}
	st.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &one, Term: &one, ConfState: cs}}
	if len(voters) == 0 {
		st = State{}
	}
	limits := DefaultLimits()
	limits.CheckRecords, limits.CheckEvery = 5, time.Second
	n, err := New(Config{ID: id, Timing: LAN(), Limits: limits}, st, g.now)
	if err != nil {
		g.t.Fatal(err)
	}
	g.nodes[id] = n
}

// settle does what all want until nothing is left.
func (g *group) settle() {
	for busy := true; busy; {
		busy = false
		for _, id := range g.ids {
			n := g.nodes[id]
			r := n.Ready()
			if r.Fault != nil {
				g.faults[id] = r.Fault
				continue
			}
			if r.TakeSnapshot && !g.noSnapshots {
				n.SnapshotTaken(n.Snapshot(), 100)
			}
			g.wake[id] = r.Wake
			g.reads = append(g.reads, r.Reads...)
			g.appends[id] = append(g.appends[id], r.Appends...)
			if !g.stalled[id] {
				for _, a := range g.appends[id] {
					busy = true
					n.Saved(a)
				}
				g.appends[id] = nil
			}
			for _, a := range r.Applies {
				busy = true
				g.records[id] = append(g.records[id], a.Records...)
				n.Applied(a)
			}
			for _, m := range r.Messages {
				busy = true
				g.sent = append(g.sent, m)
				if to := g.nodes[ID(m.GetTo())]; to != nil && !g.drop(m) {
					to.Step(m)
				}
			}
		}
	}
}

// pass lets time pass in small steps.
func (g *group) pass(d time.Duration) {
	for end := g.now + d; g.now < end; {
		g.now += 10 * time.Millisecond
		for _, id := range g.ids {
			g.nodes[id].Advance(g.now)
		}
		g.settle()
	}
}

func (g *group) leader() *Node {
	g.t.Helper()
	for range 100 {
		for _, n := range g.nodes {
			if n.Status().Serving {
				return n
			}
		}
		g.pass(100 * time.Millisecond)
	}
	g.t.Fatal("there is no leader")
	return nil
}

func (g *group) propose(data string) {
	g.t.Helper()
	if _, err := g.leader().Propose([]byte(data)); err != nil {
		g.t.Fatal(err)
	}
	g.settle()
}

func (g *group) count(typ raftpb.MessageType) (n int) {
	for _, m := range g.sent {
		if m.GetType() == typ {
			n++
		}
	}
	return n
}

func TestSoleVoterHasNoTicks(t *testing.T) {
	g := newGroup(t, 2)
	g.pass(10 * time.Millisecond)
	n := g.nodes[2]
	if st := n.Status(); !st.Serving || st.Term != 2 || g.wake[2] != 0 {
		t.Fatalf("%+v, and it wakes at %v", st, g.wake[2])
	}
	g.propose("a")
	if err := n.ReadIndex(5); err != nil {
		t.Fatal(err)
	}
	g.settle()
	if len(g.records[2]) != 1 || string(g.records[2][0].Data) != "a" || g.wake[2] != 0 || len(g.reads) != 1 || g.reads[0].Context != 5 {
		t.Errorf("records %v, reads %v, and it wakes at %v", g.records[2], g.reads, g.wake[2])
	}
	// With a learner there are heartbeats, and after it none.
	g.ids = append(g.ids, 4)
	g.add(4)
	for _, c := range []Change{{AddLearner, 4}, {Remove, 4}} {
		if _, err := n.Change(c); err != nil {
			t.Fatal(err)
		}
		g.settle()
		if (g.wake[2] != 0) != (c.Op == AddLearner) {
			t.Errorf("after %+v it wakes at %v", c, g.wake[2])
		}
	}
}

func TestNothingIsAppliedBeforeItIsSynced(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	for _, id := range g.ids {
		g.stalled[id] = true
	}
	g.propose("a")
	if len(g.records[l.ID()]) != 0 || g.count(raftpb.MsgAppResp) > 4 {
		t.Errorf("applied %v, %d acknowledgements", g.records[l.ID()], g.count(raftpb.MsgAppResp))
	}
	for _, id := range g.ids {
		g.stalled[id] = id == l.ID() // a majority without the leader
	}
	g.settle()
	for _, id := range g.ids {
		if want := 1; id != l.ID() && len(g.records[id]) != want {
			t.Errorf("server %s has applied %v", id, g.records[id])
		}
	}
	if len(g.records[l.ID()]) != 0 {
		t.Error("the leader has applied what it has not synced")
	}
}

func TestPanicIsAFault(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	var n *Node
	for _, id := range g.ids {
		if id != l.ID() {
			n = g.nodes[id]
		}
	}
	term, commit := l.Status().Term, uint64(1000)
	n.Step(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: proto64(l.ID()), To: proto64(n.ID()), Term: &term, Commit: &commit})
	r := n.Ready()
	if r.Fault == nil || !strings.Contains(r.Fault.Error(), "out of range") || len(r.Messages)+len(r.Appends) > 0 {
		t.Fatalf("%+v", r)
	}
	n.Advance(time.Hour)
	if _, err := n.Propose(nil); !errors.Is(err, ErrNotLeader) {
		t.Errorf("propose: %v", err)
	}
	if r := n.Ready(); r.Fault == nil || len(r.Messages) > 0 || r.Wake != 0 {
		t.Errorf("after a fault: %+v", r)
	}
}

func TestMessagesForOthersAreDropped(t *testing.T) {
	g := newGroup(t, 2, 4)
	term := uint64(99)
	for _, m := range []*raftpb.Message{
		nil,
		{Type: raftpb.MsgHeartbeat.Enum(), From: proto64(4), To: proto64(8), Term: &term},
		{Type: raftpb.MsgProp.Enum(), From: proto64(4), To: proto64(2), Entries: []*raftpb.Entry{{}}},
		{Type: raftpb.MsgHup.Enum(), To: proto64(2)},
	} {
		g.nodes[2].Step(m)
		if st := g.nodes[2].Status(); st.Term == 99 || st.State != raft.StateFollower {
			t.Errorf("%v: %+v", m, st)
		}
	}
}

// The leader is gone, and its connections are closed: the first in rank campaigns after 50 ms.
func TestHint(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	gone := l.ID()
	g.drop = func(m *raftpb.Message) bool { return ID(m.GetTo()) == gone || ID(m.GetFrom()) == gone }
	g.sent = nil
	began := g.now
	for _, id := range g.ids {
		if id != gone {
			g.nodes[id].Closed(gone)
		}
	}
	g.settle()
	delete(g.nodes, gone)
	g.ids = nil
	for _, id := range []ID{2, 4, 6} {
		if id != gone {
			g.ids = append(g.ids, id)
		}
	}
	if n := g.leader(); n.ID() != g.ids[0] || g.now-began > 100*time.Millisecond {
		t.Errorf("server %s leads %v later", n.ID(), g.now-began)
	}
}

// A heartbeat after the hint says that the leader lives.
func TestHintThatWasWrong(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	term := l.Status().Term
	for _, id := range g.ids {
		g.nodes[id].Closed(l.ID())
	}
	g.settle()
	for _, id := range g.ids {
		g.nodes[id].Step(&raftpb.Message{Type: raftpb.MsgHeartbeat.Enum(), From: proto64(l.ID()), To: proto64(id), Term: &term})
	}
	g.pass(3 * time.Second)
	if st := l.Status(); !st.Serving || st.Term != term {
		t.Errorf("%+v", st)
	}
}

// Without a leader, campaigns follow each other soon, and then less and less.
func TestRetry(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	g.drop = func(*raftpb.Message) bool { return true }
	g.ids = []ID{2}
	g.sent = nil
	g.pass(700 * time.Millisecond)
	if n := g.count(raftpb.MsgPreVote) / 2; n < 3 {
		t.Errorf("%d campaigns in the first 700 ms", n)
	}
	g.pass(20 * time.Second)
	g.sent = nil
	g.pass(12 * time.Second)
	if n := g.count(raftpb.MsgPreVote) / 2; n < 8 || n > 26 {
		t.Errorf("%d campaigns in 12 s, long without a leader", n)
	}
	if st := g.nodes[2].Status(); st.Term != 1 {
		t.Errorf("its term is %d", st.Term)
	}
}

func TestSlowDisk(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	term := l.Status().Term
	g.stalled[l.ID()] = true
	g.propose("a")
	g.pass(3900 * time.Millisecond)
	if st := l.Status(); st.State != raft.StateLeader {
		t.Fatalf("after 3.9 s: %+v", st)
	}
	g.pass(time.Second)
	if n := g.leader(); n == l || n.Status().Term <= term {
		t.Errorf("after 4.9 s server %s leads", n.ID())
	}
	g.propose("b")
}

// If nobody takes the leadership over, a leader with a slow disk gives it up.
func TestSlowDiskStepsDown(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	g.stalled[l.ID()] = true
	g.drop = func(m *raftpb.Message) bool { return m.GetType() == raftpb.MsgTimeoutNow }
	g.propose("a")
	g.pass(7 * time.Second)
	if n := g.leader(); n == l {
		t.Error("it still leads")
	}
}

func TestFullDisk(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	var follower *Node
	for _, id := range g.ids {
		if id != l.ID() {
			follower = g.nodes[id]
		}
	}
	follower.SetFull(true)
	g.propose("a")
	if len(g.records[follower.ID()]) != 0 || len(g.records[l.ID()]) != 1 {
		t.Errorf("a full disk has %v, the leader %v", g.records[follower.ID()], g.records[l.ID()])
	}
	term := l.Status().Term
	g.pass(5 * time.Second)
	if st := l.Status(); st.Term != term || !st.Serving {
		t.Errorf("the leader: %+v", st)
	}
	follower.SetFull(false)
	g.pass(time.Second)
	if len(g.records[follower.ID()]) != 1 {
		t.Error("with room again it does not catch up")
	}
	l.SetFull(true)
	if _, err := l.Propose([]byte("b")); !errors.Is(err, ErrFull) {
		t.Errorf("propose to a full leader: %v", err)
	}
	g.pass(time.Second)
	if n := g.leader(); n == l {
		t.Error("a full leader leads on")
	}
}

func TestTransfer(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	to := ID(2)
	if l.ID() == 2 {
		to = 4
	}
	for _, bad := range []ID{7, 8} {
		if err := l.Transfer(bad); !errors.Is(err, ErrChangeInvalid) {
			t.Errorf("transfer to %s: %v", bad, err)
		}
	}
	if err := l.Transfer(to); err != nil {
		t.Fatal(err)
	}
	g.settle()
	if n := g.leader(); n.ID() != to {
		t.Errorf("server %s leads", n.ID())
	}
	if err := l.Transfer(to); !errors.Is(err, ErrNotLeader) {
		t.Errorf("transfer by a follower: %v", err)
	}
}

func TestChange(t *testing.T) {
	g := newGroup(t, 2)
	g.pass(10 * time.Millisecond)
	n := g.nodes[2]
	for _, id := range []ID{4, 6} {
		g.ids = append(g.ids, id)
		g.add(id)
		if _, err := n.Change(Change{AddLearner, id}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Change(Change{AddLearner, 8}); !errors.Is(err, ErrChangePending) {
			t.Errorf("a change during another one: %v", err)
		}
		g.settle()
		g.pass(500 * time.Millisecond)
	}
	for _, bad := range [][]Change{nil, {{Remove, 2}}, {{AddLearner, 2}}, {{AddVoter, 5}, {Remove, 2}}} {
		if _, err := n.Change(bad...); !errors.Is(err, ErrChangeInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := n.Change(Change{AddVoter, 4}, Change{AddVoter, 6}); err != nil {
		t.Fatal(err)
	}
	g.settle()
	g.pass(3 * time.Second)
	m := g.nodes[6].Members()
	if len(m.Voters) != 3 || len(m.VotersOutgoing) != 0 || len(m.Learners) != 0 || !n.IsMember(6) || n.IsMember(8) {
		t.Errorf("members %v", m)
	}
	if _, err := n.Change(Change{Remove, 2}); err != nil { // itself
		t.Fatal(err)
	}
	g.settle()
	if l := g.leader(); l == n || n.Status().Serving || n.IsMember(2) {
		t.Errorf("it was removed: %+v", n.Status())
	}
	if _, err := n.Change(Change{AddVoter, 2}); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a former leader: %v", err)
	}
}

// A witness gets entries only while a full voter is away, without their data, and after the
// leader has synced them itself.
func TestWitness(t *testing.T) {
	const witness = 5
	g := newGroup(t, 2, 4, witness)
	l := g.leader()
	if l.ID() == witness {
		t.Fatal("the witness leads")
	}
	other := 6 - l.ID()
	g.pass(time.Second)
	g.sent = nil
	for range 5 {
		g.propose("secret")
	}
	toWitness := func() (n int) {
		for _, m := range g.sent {
			if ID(m.GetTo()) == witness && len(m.GetEntries()) > 0 {
				n++
				for _, e := range m.GetEntries() {
					if bytes.Contains(e.GetData(), []byte("secret")) {
						t.Error("the witness gets data")
					}
				}
			}
		}
		return n
	}
	if n := toWitness(); n > 0 {
		t.Errorf("%d messages with entries to the witness while all are well", n)
	}
	if _, err := l.Change(Change{Remove, l.ID()}); !errors.Is(err, ErrChangeInvalid) {
		t.Errorf("the leader removes itself: %v", err)
	}
	g.drop = func(m *raftpb.Message) bool { return ID(m.GetTo()) == other || ID(m.GetFrom()) == other }
	g.pass(700 * time.Millisecond)
	g.stalled[l.ID()] = true
	g.sent = nil
	g.propose("secret")
	g.pass(500 * time.Millisecond)
	if n := toWitness(); n > 0 {
		t.Errorf("%d messages with entries that the leader has not synced", n)
	}
	g.stalled[l.ID()] = false
	g.settle()
	g.pass(time.Second)
	if n := len(g.records[l.ID()]); n != 6 || toWitness() == 0 {
		t.Errorf("with the witness %d records are committed, after %d messages to it", n, toWitness())
	}
	g.drop = func(m *raftpb.Message) bool { return ID(m.GetTo()) == l.ID() || ID(m.GetFrom()) == l.ID() }
	g.sent = nil
	g.pass(10 * time.Second)
	for _, m := range g.sent {
		if ID(m.GetFrom()) == witness && (m.GetType() == raftpb.MsgPreVote || m.GetType() == raftpb.MsgVote) {
			t.Fatal("the witness asks for votes")
		}
	}
	if st := g.nodes[other].Status(); st.Serving {
		t.Error("a server leads that lacks what the witness has acknowledged")
	}
}

// One server applied something else: it sees that at the next comparison.
func TestDivergence(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	g.pass(time.Second)
	bad := ID(2)
	if l.ID() == 2 {
		bad = 4
	}
	for i := range 12 {
		if i == 3 {
			g.nodes[bad].sum++
		}
		g.propose("a")
		g.pass(300 * time.Millisecond)
	}
	for _, id := range g.ids {
		if diverged := g.faults[id] != nil; diverged != (id == bad) {
			t.Errorf("server %s: %v", id, g.faults[id])
		}
	}
}

func TestSnapshotToAFollower(t *testing.T) {
	g := newGroup(t, 2, 4, 6)
	l := g.leader()
	away := ID(2)
	if l.ID() == 2 {
		away = 4
	}
	g.drop = func(m *raftpb.Message) bool { return ID(m.GetTo()) == away || ID(m.GetFrom()) == away }
	l.cfg.Limits.Keep, g.noSnapshots = 0, true
	for range 5 {
		g.propose("abc")
	}
	g.drop = func(*raftpb.Message) bool { return false }
	g.pass(time.Second)
	if r := l.Ready(); !r.TakeSnapshot {
		t.Fatal("no snapshot is wanted")
	}
	head := l.Snapshot()
	l.SnapshotTaken(head, 100)
	if r := l.Ready(); r.TakeSnapshot {
		t.Error("another one is wanted")
	}
	g.pass(time.Second)
	if st := g.nodes[away].Status(); st.Applied < head.GetMetadata().GetIndex() || g.count(raftpb.MsgSnap) == 0 {
		t.Errorf("%+v", st)
	}
	if g.nodes[away].sum != l.sum {
		t.Error("the sums differ")
	}
}

func TestNewID(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	seen := map[ID]bool{}
	for i := range 100 {
		id, err := NewID(random, i%2 == 1)
		if err != nil || seen[id] || id.Witness() != (i%2 == 1) || len(id.String()) != 16 {
			t.Fatalf("%s, %v", id, err)
		}
		seen[id] = true
	}
	if _, err := NewID(strings.NewReader("short"), false); err == nil {
		t.Error("an id without chance")
	}
	zeros := append(make([]byte, 8), 9, 9, 9, 9, 9, 9, 9, 9)
	if id, err := NewID(bytes.NewReader(zeros), false); err != nil || id == 0 {
		t.Errorf("%s, %v", id, err)
	}
}

func TestNewRefusesWhatDoesNotFit(t *testing.T) {
	one, nine := uint64(1), uint64(9)
	bad := State{HardState: &raftpb.HardState{Term: &one, Commit: &nine}} // no entries
	if _, err := New(Config{ID: 2, Timing: LAN(), Limits: DefaultLimits()}, bad, 0); err == nil {
		t.Error("a log that ends before what is committed")
	}
	if _, err := New(Config{Timing: LAN(), Limits: DefaultLimits()}, State{}, 0); err == nil {
		t.Error("a server without an id")
	}
}

func TestWAN(t *testing.T) {
	if w, l := WAN(), LAN(); w.Tick != 5*l.Tick || w.RetryDelay != 5*l.RetryDelay || w.SlowDisk != l.SlowDisk {
		t.Errorf("%+v", w)
	}
}
