package quorumtest

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// network carries messages between servers. Links are by place, not by id.
type network struct {
	sim     *sim
	cut     map[link]bool
	last    map[link]time.Duration // when the last message of an ordered link arrives
	loss    float64
	repeat  float64
	reorder bool // else each link is ordered, as a connection is
	slow    time.Duration
}

type link struct{ from, to int }

func newNetwork(s *sim) *network {
	return &network{sim: s, cut: map[link]bool{}, last: map[link]time.Duration{}}
}

func (n *network) heal() {
	n.cut = map[link]bool{}
	n.loss, n.repeat, n.reorder, n.slow = 0, 0, false, 0
}

// isolate cuts what goes from and to one server.
func (n *network) isolate(place int, in, out bool) {
	for _, other := range n.sim.servers {
		if other.place != place {
			n.cut[link{other.place, place}] = in
			n.cut[link{place, other.place}] = out
		}
	}
}

// deliver hands something to a place, later.
func (n *network) deliver(l link, do func()) {
	s := n.sim
	at := s.now + s.between(time.Millisecond, 10*time.Millisecond)
	if n.slow > 0 {
		at += s.between(0, n.slow)
	}
	if !n.reorder {
		at = max(at, n.last[l]+1)
		n.last[l] = at
	}
	s.after(at-s.now, do)
}

// send a message with the content of its snapshot, if it has one.
func (n *network) send(from *server, m *raftpb.Message, content []byte) {
	s := n.sim
	to := s.byID(core.ID(m.GetTo()))
	if to == nil {
		return // a former id
	}
	l := link{from.place, to.place}
	lost := n.cut[l] || s.vote.loses(m) || s.chance(n.loss)
	if m.GetType() == raftpb.MsgSnap {
		epoch, id := from.epoch, core.ID(m.GetTo())
		s.after(s.between(20*time.Millisecond, 100*time.Millisecond), func() {
			if from.epoch == epoch && from.up {
				from.input(func() { from.node.SnapshotSent(id, !lost) })
			}
		})
	}
	if lost {
		return
	}
	for range 1 + s.rand.IntN(2)*b2i(s.chance(n.repeat)) {
		n.deliver(l, func() {
			if !n.cut[l] {
				to.receive(m, content)
			}
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// closed tells all others that the connections of a server have closed, after what it has sent.
func (n *network) closed(sv *server) {
	id := sv.id
	for _, other := range n.sim.servers {
		if other == sv || n.cut[link{sv.place, other.place}] {
			continue
		}
		epoch := other.epoch
		n.deliver(link{sv.place, other.place}, func() {
			if other.epoch == epoch {
				other.input(func() { other.node.Closed(id) })
			}
		})
	}
}

func (s *sim) byID(id core.ID) *server {
	for _, sv := range s.servers {
		if sv.id == id {
			return sv
		}
	}
	return nil
}
