package core

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// elections has when this server acts by itself.
type elections struct {
	nextTick   time.Duration
	campaignAt time.Duration // 0: not planned
	attempts   int           // without a leader since
	moved      bool          // term, vote, leader or members have changed

	checkedAt time.Duration // when sums were last compared
	reportDue bool          // a mark is applied, its sum has to be told
}

// patient is how many attempts there are before each waits twice as long as the one before it,
// and mostWait how many times as long it waits at most.
const (
	patient  = 3
	mostWait = 8
)

// sole reports whether nobody else has a part in this tier.
func (n *Node) sole() bool {
	c := n.conf
	return len(c.Voters) == 1 && ID(c.Voters[0]) == n.cfg.ID && len(c.Learners) == 0 && len(c.VotersOutgoing) == 0 &&
		len(c.LearnersNext) == 0
}

func (n *Node) quiet() bool { return n.sole() && n.soft.RaftState == raft.StateLeader }

// tick tells raft the time. After a pause of the process it is told of one tick: what arrived
// meanwhile has to be heard before anything is concluded from silence.
func (n *Node) tick() {
	if n.sole() || n.now < n.nextTick {
		return
	}
	n.raft.Tick()
	if n.nextTick += n.cfg.Timing.Tick; n.nextTick <= n.now {
		n.nextTick = n.now + n.cfg.Timing.Tick
	}
}

// wake is when something is due.
func (n *Node) wake() time.Duration {
	if n.quiet() {
		return 0
	}
	at := n.nextTick
	if n.sole() {
		at = 0
	}
	if n.campaignAt != 0 && (at == 0 || n.campaignAt < at) {
		at = n.campaignAt
	}
	return at
}

// Closed is the hint: a connection to a peer has closed, or could not be made. It has to come
// after all messages that came through that connection: a heartbeat that it overtakes undoes it.
func (n *Node) Closed(peer ID) {
	if peer == n.cfg.ID {
		return // the library would send itself appends, without end
	}
	n.do(func() {
		if n.soft.RaftState == raft.StateLeader {
			n.raft.ReportUnreachable(uint64(peer))
			return
		}
		if ID(n.soft.Lead) != peer || n.cfg.ID.Witness() || !n.votes() {
			return
		}
		n.collect()
		if err := n.raft.ForgetLeader(); err != nil {
			return
		}
		n.collect()
		n.attempts = 0
		n.campaignAt = n.now + n.cfg.Timing.HintDelay*time.Duration(1+n.rank(peer))
		n.moved = false
	})
}

// schedule plans the next campaign after an input.
func (n *Node) schedule() {
	if n.sole() && n.soft.RaftState == raft.StateFollower && n.campaignAt == 0 {
		n.campaignAt = n.now // there is nobody to wait for
		return
	}
	switch {
	case n.soft.Lead != raft.None || n.soft.RaftState == raft.StateLeader || n.cfg.ID.Witness() || !n.votes():
		n.campaignAt, n.attempts = 0, 0
	case n.moved, n.campaignAt == 0:
		// Each sign of an election under way puts it off.
		n.campaignAt = n.now + n.retryDelay()
	}
	n.moved = false
}

func (n *Node) retryDelay() time.Duration {
	t := n.cfg.Timing
	d := t.RetryDelay + t.RetryRank*time.Duration(n.rank(0))
	for i := patient; i < n.attempts && i < patient+3; i++ {
		d *= 2
	}
	return min(d, mostWait*t.RetryDelay)
}

// campaign begins an election that is due.
func (n *Node) campaign() {
	if n.campaignAt == 0 || n.now < n.campaignAt {
		return
	}
	n.attempts++
	n.campaignAt = n.now + n.retryDelay()
	// It may refuse, for a change of the members that is yet to be applied.
	_ = n.raft.Campaign()
	n.collect()
	n.moved = false
}

// votes reports whether this server may lead as far as it knows.
func (n *Node) votes() bool {
	return slices.Contains(n.conf.Voters, uint64(n.cfg.ID)) || slices.Contains(n.conf.VotersOutgoing, uint64(n.cfg.ID))
}

// rank of this server among the voters that may lead, without one of them.
func (n *Node) rank(without ID) (rank int) {
	for _, v := range n.conf.Voters {
		if id := ID(v); id < n.cfg.ID && id != without && !id.Witness() {
			rank++
		}
	}
	return rank
}

// Transfer hands the leadership to a voter. Whether that works shows in Role; meanwhile
// proposals are dropped, for an election timeout at most.
func (n *Node) Transfer(to ID) error {
	if n.fault != nil || n.soft.RaftState != raft.StateLeader {
		return ErrNotLeader
	}
	if n.changing() {
		return ErrChangePending
	}
	if to.Witness() || !slices.Contains(n.conf.Voters, uint64(to)) {
		return ErrChangeInvalid
	}
	n.do(func() { n.raft.TransferLeader(uint64(to)) })
	return nil
}

// stepDown gives up the leadership. The library has no call for it; it follows a message of a
// later term, and any server may begin one.
func (n *Node) stepDown() {
	term := n.term + 1
	for _, id := range n.peers() {
		m := &raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: &id, To: proto64(n.cfg.ID), Term: &term}
		if err := n.raft.Step(m); err == nil {
			return
		}
	}
}

func proto64(id ID) *uint64 { v := uint64(id); return &v }

// peers are the other members.
func (n *Node) peers() (out []uint64) {
	for _, set := range [][]uint64{n.conf.Voters, n.conf.VotersOutgoing, n.conf.Learners, n.conf.LearnersNext} {
		for _, id := range set {
			if ID(id) != n.cfg.ID && !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}
