package quorumtest

import (
	"slices"
	"strings"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
)

// nemesis does something bad, and comes again.
func (s *sim) nemesis() {
	if s.healed || s.stopped {
		return
	}
	sv := s.servers[s.rand.IntN(len(s.servers))]
	if s.chance(0.3) {
		if l := s.leader(); l != nil {
			sv = l
		}
	}
	faults := []func(*server){
		s.kill, s.kill, s.cutPower, s.cutPower, s.cutSite, s.cutSite, s.freezeServer, s.freezeServer, s.isolate, s.isolate, s.cutLink,
		s.badNetwork, s.stallDisk, s.stallDisk, s.fillDisk, s.damage, s.damage, s.damage, s.transfer, s.transfer, s.replace, s.remove,
		s.tryVoteTwice,
	}
	faults[s.rand.IntN(len(faults))](sv)
	s.after(s.between(50*time.Millisecond, time.Second), s.nemesis)
}

// voteTwice is an attempt at two leaders in one term: of the requests of a candidate for votes one
// arrives; who grants it loses its power, and the candidate as well. Whoever campaigns next does so
// in the same term.
type voteTwice struct {
	wanted    bool
	term      uint64
	candidate core.ID
	voter     core.ID
}

func (s *sim) tryVoteTwice(*server) {
	s.vote = voteTwice{wanted: true}
	if l := s.leader(); l != nil {
		s.kill(l)
	}
}

// loses reports whether a message is lost for that, and notes who asks whom.
func (v *voteTwice) loses(m *raftpb.Message) bool {
	if !v.wanted || m.GetType() != raftpb.MsgVote {
		return false
	}
	if v.term == 0 {
		v.term, v.candidate, v.voter = m.GetTerm(), core.ID(m.GetFrom()), core.ID(m.GetTo())
	}
	return m.GetTerm() == v.term && core.ID(m.GetFrom()) == v.candidate && core.ID(m.GetTo()) != v.voter
}

// granted is told of each vote.
func (v *voteTwice) granted(s *sim, m *raftpb.Message) {
	if !v.wanted || v.term != m.GetTerm() || core.ID(m.GetFrom()) != v.voter {
		return
	}
	v.wanted = false
	voter, candidate := s.byID(v.voter), s.byID(v.candidate)
	s.after(0, func() {
		voter.stop(true)
		s.restartLater(voter, 100*time.Millisecond)
		if candidate != nil {
			candidate.stop(true)
			s.restartLater(candidate, 2*time.Second)
		}
	})
}

// leader that serves, of the highest term.
func (s *sim) leader() (l *server) {
	for _, sv := range s.servers {
		if sv.up && !sv.frozen && sv.role.Serving && (l == nil || sv.role.Term > l.role.Term) {
			l = sv
		}
	}
	return l
}

func (s *sim) restartLater(sv *server, most time.Duration) {
	s.after(s.between(50*time.Millisecond, most), sv.start)
}

func (s *sim) kill(sv *server) {
	sv.stop(false)
	s.restartLater(sv, 3*time.Second)
}

func (s *sim) cutPower(sv *server) {
	sv.stop(true)
	s.restartLater(sv, 3*time.Second)
}

// cutSite cuts the power of all, at once or as soon as two of them write several sectors.
func (s *sim) cutSite(*server) {
	if s.chance(0.3) {
		s.siteIsCut()
		return
	}
	s.check.cutWhenBusy = true
}

func (s *sim) saveBegun() {
	busy := 0
	for _, sv := range s.servers {
		if sv.up && sv.writing > sectorSize {
			busy++
		}
	}
	if s.check.cutWhenBusy && busy >= 2 {
		s.check.cutWhenBusy = false
		s.after(0, s.siteIsCut)
	}
}

func (s *sim) siteIsCut() {
	for _, sv := range s.servers {
		sv.stop(true)
		s.restartLater(sv, 2*time.Second)
	}
}

func (s *sim) freezeServer(sv *server) {
	sv.freeze(true)
	s.after(s.between(100*time.Millisecond, 4*time.Second), func() { sv.freeze(false) })
}

func (s *sim) isolate(sv *server) {
	kind := s.rand.IntN(4)
	s.net.isolate(sv.place, kind != 1, kind != 2) // one way, the other, both
	s.after(s.between(200*time.Millisecond, 4*time.Second), func() { s.net.isolate(sv.place, false, false) })
}

func (s *sim) cutLink(sv *server) {
	l := link{sv.place, s.rand.IntN(len(s.servers))}
	s.net.cut[l] = true
	s.after(s.between(200*time.Millisecond, 4*time.Second), func() { s.net.cut[l] = false })
}

func (s *sim) badNetwork(*server) {
	n := s.net
	n.loss, n.repeat, n.reorder = s.rand.Float64()*0.3, s.rand.Float64()*0.3, s.chance(0.5)
	if s.chance(0.3) {
		n.slow = s.between(10*time.Millisecond, 300*time.Millisecond)
	}
	s.after(s.between(time.Second, 5*time.Second), func() { n.loss, n.repeat, n.reorder, n.slow = 0, 0, false, 0 })
}

func (s *sim) stallDisk(sv *server) {
	sv.stall = s.now + s.between(100*time.Millisecond, 6*time.Second)
}

func (s *sim) fillDisk(sv *server) {
	sv.disk.SetRoom(0)
	s.after(s.between(500*time.Millisecond, 4*time.Second), func() { sv.disk.SetRoom(1 << 40) })
}

// sound reports whether a server may lose its disk: all are voters with whole disks that have
// all that is committed. A majority that is lost is lost. Beside a witness only a follower may:
// the witness may have what the leader alone has beside it, and then waits for it.
func (s *sim) sound(sv *server) bool {
	l := s.leader()
	if l == nil || s.options.Witness && sv == l {
		return false
	}
	members, st := l.node.Members(), l.node.Status()
	return len(members.Voters) == len(s.servers) && !st.Changing && !slices.ContainsFunc(s.servers, func(sv *server) bool {
		// Until all have applied the last change of the members, some need votes of the former ones.
		behind := !sv.up || sv.node.Members().Equivalent(members) != nil || !sv.id.Witness() && st.Match[sv.id] < st.Commit
		return sv.broken || behind || !slices.Contains(members.Voters, uint64(sv.id))
	})
}

// damage hits a sector that was synced, and restarts the server, which sees it then.
func (s *sim) damage(sv *server) {
	if !s.sound(sv) || !sv.up {
		return
	}
	names, _ := sv.disk.List()
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "log-") && !strings.HasPrefix(n, "snap-") })
	name := names[s.rand.IntN(len(names))]
	if logs := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.HasPrefix(n, "snap-") }); s.chance(0.5) {
		name = logs[len(logs)-1] // what is there is needed
	}
	sv.stop(true)
	content := sv.disk.Content(name)
	kind := Damage(s.rand.IntN(2))
	if used := usedSectors(content, kind == Lost); used > 0 {
		sv.broken = true
		s.note("damage", sv.number())
		sv.disk.Hit(name, s.rand.IntN(used), kind)
	}
	s.restartLater(sv, time.Second)
}

// usedSectors counts the sectors of a file that hold something, or those before the last batch:
// what a disk loses of that looks like a torn one, and is a lie of the disk.
func usedSectors(content []byte, beforeLast bool) (used int) {
	last := 0
	for i := range (len(content) + sectorSize - 1) / sectorSize {
		switch content[i*sectorSize] {
		case 0:
		case 0xa5: // a batch begins
			last = i
			fallthrough
		default:
			used = i + 1
		}
	}
	if beforeLast && last > 0 {
		return last
	}
	return used
}

func (s *sim) transfer(*server) {
	l := s.leader()
	if l == nil {
		return
	}
	to := s.servers[s.rand.IntN(len(s.servers))].id
	l.input(func() { _ = l.node.Transfer(to) }) // to a learner: refused
}

// replace gives a server an empty disk, and so another id.
func (s *sim) replace(sv *server) {
	if !s.sound(sv) || !sv.up {
		return
	}
	s.note("replace", sv.number())
	sv.stop(true)
	sv.disk = NewDisk(s.rand)
	sv.disk.Deferred = true
	sv.rejoin()
}

// remove removes a member whose process runs on for a while; then it joins again.
func (s *sim) remove(sv *server) {
	l := s.leader()
	if !s.sound(sv) || l == nil || s.options.Witness {
		return // of two servers with the state none is removed: see DESIGN.md, limits
	}
	l.input(func() {
		// Refused while another change is under way. It may also come to nothing.
		_, _ = l.node.Change(core.Change{Op: core.Remove, ID: sv.id})
	})
	sv.lingers = s.now + s.between(500*time.Millisecond, 2*time.Second)
}

// rejoinRemoved gives a server that was a member another id.
func (s *sim) rejoinRemoved(sv *server) {
	s.note("rejoin", sv.number())
	sv.stop(false)
	if err := sv.setAside(); err != nil {
		s.fail("server %d: %v", sv.place, err)
		return
	}
	sv.rejoin()
}

// heal undoes everything.
func (s *sim) heal() {
	if s.stopped {
		return
	}
	s.healed = true
	s.check.cutWhenBusy = false
	s.check.healedAt = s.now
	s.net.heal()
	for _, sv := range s.servers {
		sv.disk.SetRoom(1 << 40)
		sv.stall = 0
		sv.freeze(false)
		sv.start()
		sv.lingers = 0
	}
	s.after(writeTime, func() { s.check.closed = true })
}

// manage does what the leader of a tier does about its members, and comes again: it puts servers
// with new ids in the place of lost ones, and makes voters of learners that have caught up.
func (s *sim) manage() {
	if l := s.leader(); l != nil {
		l.input(func() { s.manageAt(l) })
	}
	s.after(200*time.Millisecond, s.manage)
}

func (s *sim) manageAt(l *server) {
	members := l.node.Members()
	var lost []core.Change
	for _, id := range append(slices.Clone(members.Voters), members.Learners...) {
		if s.byID(core.ID(id)) == nil {
			lost = append(lost, core.Change{Op: core.Remove, ID: core.ID(id)})
		}
	}
	for _, sv := range s.servers {
		switch {
		case !sv.up || l.node.IsMember(sv.id):
		case s.former[sv.id]:
			if s.now >= sv.lingers {
				s.after(0, func() { s.rejoinRemoved(sv) })
			}
			return
		default:
			s.changed(l.node.Change(append(lost, core.Change{Op: core.AddLearner, ID: sv.id})...))
			return
		}
	}
	if ready := s.readyLearners(l, members); len(members.Voters)+len(ready) != 2 && len(ready) > 0 {
		s.changed(l.node.Change(ready...))
	}
}

func (s *sim) changed(_ uint64, err error) {
	if err == nil {
		s.result.Replaced++
	}
}

// readyLearners are those that have nearly everything.
func (s *sim) readyLearners(l *server, members *raftpb.ConfState) (out []core.Change) {
	st := l.node.Status()
	for _, id := range members.Learners {
		if st.Match[core.ID(id)]+20 >= st.Commit {
			out = append(out, core.Change{Op: core.AddVoter, ID: core.ID(id)})
		}
	}
	return out
}
