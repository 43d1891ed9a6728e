package core

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// watchDisk hands the leadership over when the own disk does not keep up: heartbeats go on while
// a write is being synced, so the others would wait for this server as long as that takes.
func (n *Node) watchDisk() {
	slow := len(n.unsaved) > 0 && n.now-n.unsaved[0].since >= n.cfg.Timing.SlowDisk
	if n.soft.RaftState != raft.StateLeader || n.sole() || !slow && !n.full {
		n.handover = 0
		return
	}
	timeout := n.cfg.Timing.Tick * time.Duration(n.cfg.Timing.ElectionTicks)
	switch to := n.successor(); {
	case n.handover == 0 && to != 0:
		n.raft.TransferLeader(uint64(to))
		n.handover = n.now
	case n.handover == 0:
		n.handover = n.now
	case n.now-n.handover <= timeout:
	case slow:
		n.stepDown()
		n.handover = 0
	case to != 0:
		// A full disk is no reason to leave the others without any leader.
		n.raft.TransferLeader(uint64(to))
		n.handover = n.now
	}
	n.collect()
}

// SetFull says whether the disk has no room for entries.
func (n *Node) SetFull(full bool) { n.full = full }

// successor is the voter that has most of the log among those heard lately; 0: none.
func (n *Node) successor() (best ID) {
	var match uint64
	n.raft.WithProgress(func(v uint64, kind raft.ProgressType, pr tracker.Progress) {
		id := ID(v)
		if kind != raft.ProgressTypePeer || id == n.cfg.ID || id.Witness() || !n.alive(id) {
			return
		}
		if best == 0 || pr.Match > match {
			best, match = id, pr.Match
		}
	})
	return best
}

// alive reports whether a peer was heard within three heartbeats.
func (n *Node) alive(id ID) bool {
	at, ok := n.heard[id]
	return ok && n.now-at <= 3*n.cfg.Timing.Tick
}

// fullVotersWell reports whether the witness is needed for nothing: all other voters are heard,
// and what was proposed is committed without it.
func (n *Node) fullVotersWell() bool {
	if n.last > n.commit && n.now-n.committedAt > n.cfg.Timing.Tick || len(n.conf.VotersOutgoing) > 0 {
		return false
	}
	full := 0
	for _, v := range n.conf.Voters {
		id := ID(v)
		if id.Witness() {
			continue
		}
		if full++; id != n.cfg.ID && !n.alive(id) {
			return false
		}
	}
	return full > len(n.conf.Voters)/2
}

// compareSums begins a comparison of all servers when it is due, and ends the one under way.
func (n *Node) compareSums() {
	if !n.serving || n.full {
		n.reportDue = false
		return
	}
	if n.reportDue {
		n.reportDue = false
		_ = n.raft.Propose(framed(kindCheck, n.report())) // dropped: the next mark will do
		n.collect()
		return
	}
	if n.records >= n.cfg.Limits.CheckRecords && n.now-n.checkedAt >= n.cfg.Limits.CheckEvery {
		n.checkedAt = n.now
		_ = n.raft.Propose(framed(kindMark, nil))
		n.collect()
	}
}
