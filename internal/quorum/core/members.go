package core

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Op is what becomes of a member.
type Op int

// Changes of a member.
const (
	AddLearner Op = iota // it receives the log and does not vote; also what a voter becomes
	AddVoter             // also what a learner becomes
	Remove
)

// Change of one member.
type Change struct {
	Op Op
	ID ID
}

// Change changes the members: several changes at once go through a joint configuration, which
// is left by itself. Only a leader does, one change after the other; index is as in Propose.
func (n *Node) Change(changes ...Change) (index uint64, err error) {
	if n.fault != nil || !n.serving {
		return 0, ErrNotLeader
	}
	if n.changing() {
		return 0, ErrChangePending
	}
	cc := &raftpb.ConfChangeV2{}
	for _, c := range changes {
		kind := [...]raftpb.ConfChangeType{
			AddLearner: raftpb.ConfChangeAddLearnerNode, AddVoter: raftpb.ConfChangeAddNode, Remove: raftpb.ConfChangeRemoveNode,
		}[c.Op]
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: kind.Enum(), NodeId: proto64(c.ID)})
	}
	if err := n.tryChange(cc); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrChangeInvalid, err)
	}
	n.do(func() {
		if err = n.raft.ProposeConfChange(cc); err != nil {
			err = ErrDropped
			return
		}
		n.collect()
		if index = n.last; !n.lastIsChange {
			err = ErrChangePending // raft has put an empty entry in its place
			return
		}
		n.changeAt = index
	})
	if n.fault != nil {
		return 0, ErrNotLeader
	}
	return index, err
}

func (n *Node) changing() bool { return n.changeAt > n.applied || len(n.conf.VotersOutgoing) > 0 }

// tryChange applies a change to a copy: an invalid one in the log would be a panic at every
// server.
func (n *Node) tryChange(cc *raftpb.ConfChangeV2) error {
	if len(cc.Changes) == 0 {
		return fmt.Errorf("there is no change")
	}
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0), LastIndex: n.last}
	cfg, progress, err := confchange.Restore(changer, n.conf)
	if err != nil {
		return err
	}
	changer.Tracker.Config, changer.Tracker.Progress = cfg, progress
	if joint, ok := cc.EnterJoint(); ok {
		cfg, _, err = changer.EnterJoint(joint, cc.Changes...)
	} else {
		cfg, _, err = changer.Simple(cc.Changes...)
	}
	if err != nil {
		return err
	}
	_, stays := cfg.Voters[0][uint64(n.cfg.ID)]
	lead, witness := false, false
	for id := range cfg.Voters[0] {
		lead, witness = lead || !ID(id).Witness(), witness || ID(id).Witness()
	}
	switch {
	case !lead:
		return fmt.Errorf("no voter that can lead would be left")
	case witness && !stays:
		// The change may be committed by the witness alone: then nobody is left who has what was
		// acknowledged. Whoever takes the leadership over has it.
		return fmt.Errorf("this server may be the only one with the state beside the witness: transfer the leadership first")
	}
	return nil
}

// Members are those whose changes are applied.
func (n *Node) Members() *raftpb.ConfState { return proto.Clone(n.conf).(*raftpb.ConfState) }

// IsMember reports whether a server is one, in either half of a joint configuration.
func (n *Node) IsMember(id ID) bool {
	if id == n.cfg.ID {
		return n.votes() || slices.Contains(n.conf.Learners, uint64(id))
	}
	return slices.Contains(n.peers(), uint64(id))
}

// Status of a server.
type Status struct {
	Role
	Commit, Applied uint64
	// Changing: a change of the members is under way, as far as this leader knows.
	Changing bool
	// Match is the last entry that each member has acknowledged; at a leader alone.
	Match map[ID]uint64
}

// Status of this server now.
func (n *Node) Status() Status {
	s := Status{Role: n.role(), Commit: n.commit, Applied: n.applied}
	if n.fault != nil || s.State != raft.StateLeader {
		return s
	}
	s.Changing = n.changing()
	s.Match = map[ID]uint64{}
	n.raft.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) { s.Match[ID(id)] = pr.Match })
	return s
}
