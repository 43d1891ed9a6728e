package quorumtest

import (
	"errors"
	"io"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
	"github.com/verge-edge/verge/internal/quorum/wal"
)

// server is a machine with a disk, and the process on it.
type server struct {
	sim   *sim
	place int
	id    core.ID
	disk  *Disk
	rate  float64 // of its clock

	epoch   int // of the process
	up      bool
	frozen  bool
	inbox   []func() // what waits for a frozen process
	node    *core.Node
	log     *wal.Log
	machine *machine
	role    core.Role

	queue   []*core.Append // to be saved
	saving  bool
	writing int           // bytes of entries that are being saved
	stall   time.Duration // until when the disk does not answer
	wakeSeq int

	pending map[uint64]proposal // by index
	reads   map[uint64]*read    // by context
	waiting []*read             // until their index is applied
	seen    map[core.ID]bool    // members, former ones as well
	// The members now, and before the last change: what was committed before a change was
	// applied is on a majority of those.
	members []*raftpb.ConfState
	broken  bool          // its disk was damaged by the nemesis
	lingers time.Duration // until when its process goes on after its removal
}

func newServer(s *sim, place int, id core.ID) *server {
	sv := &server{sim: s, place: place, id: id, disk: NewDisk(s.rand), rate: 1}
	sv.disk.Deferred = true
	if s.options.Faults {
		sv.rate = 0.8 + 0.4*s.rand.Float64()
	}
	return sv
}

func (sv *server) options() wal.Options { return wal.Options{SegmentBytes: 16 << 10} }

// create makes the log: with the first members, or empty.
func (sv *server) create(voters []core.ID) {
	sv.disk.SetLying(false)
	var head *raftpb.Snapshot
	if voters != nil {
		one := uint64(1)
		cs := &raftpb.ConfState{}
		for _, v := range voters {
			cs.Voters = append(cs.Voters, uint64(v))
		}
		head = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: &one, Term: &one, ConfState: cs}}
	}
	log, _, err := wal.Create(sv.disk, sv.id, head, newMachine(sv.sim).write, sv.options())
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		sv.sim.fail("server %d: make the log: %v", sv.place, err)
	}
	sv.disk.Flush()
}

func (sv *server) number() uint64 { return uint64(sv.place) } //nolint:gosec // a small number

// local is the time on the server's own clock.
func (sv *server) local() time.Duration { return time.Duration(float64(sv.sim.now) * sv.rate) }

// start starts the process with what is on the disk.
func (sv *server) start() {
	if sv.up || sv.sim.stopped {
		return
	}
	log, opened, err := sv.open()
	if errors.Is(err, wal.ErrDamaged) {
		if !sv.broken && sv.sim.options.Bug == NoBug && !sv.sim.options.Lying {
			sv.sim.fail("server %d: %v, and nothing has damaged it", sv.place, err)
			return
		}
		sv.quarantine(err.Error())
		return
	}
	if err != nil {
		sv.sim.fail("server %d does not start: %v", sv.place, err)
		return
	}
	sv.disk.Flush()
	if opened.Torn > 0 {
		sv.sim.result.Torn++
	}
	sv.machine = newMachine(sv.sim)
	if err := sv.restore(opened.State.Snapshot); err != nil {
		sv.sim.fail("server %d: %v", sv.place, err)
		return
	}
	if sv.sim.options.Bug == ForgetVote {
		opened.State.HardState.Vote = nil
	}
	node, err := core.New(core.Config{ID: sv.id, Timing: core.LAN(), Limits: limits()}, opened.State, sv.local())
	if err != nil {
		sv.sim.fail("server %d does not start: %v", sv.place, err)
		return
	}
	sv.sim.note("start", sv.number(), uint64(opened.Torn)) //nolint:gosec // not negative
	sv.log, sv.node, sv.up = log, node, true
	sv.queue, sv.saving, sv.writing, sv.inbox, sv.role = nil, false, 0, nil, core.Role{}
	sv.pending, sv.reads, sv.waiting, sv.seen = map[uint64]proposal{}, map[uint64]*read{}, nil, map[core.ID]bool{}
	sv.members = []*raftpb.ConfState{node.Members()}
	sv.sim.check.opened(sv.id, opened.State)
	sv.disk.SetLying(sv.sim.options.Bug == NoSync || sv.sim.options.Lying && sv.place == 0)
	sv.drive()
}

func limits() core.Limits {
	l := core.DefaultLimits()
	l.Message, l.Inflight, l.Keep, l.Log = 8<<10, 64<<10, 4<<10, 16<<10
	l.CheckRecords, l.CheckEvery = 10, time.Second
	return l
}

// open opens the log, with the bugs that concern what is torn and what is damaged.
func (sv *server) open() (*wal.Log, *wal.Opened, error) {
	log, opened, err := wal.Open(sv.disk, sv.options())
	var damage *wal.DamageError
	switch bug := sv.sim.options.Bug; {
	case bug == TornIsDamaged && err == nil && opened.Torn > 0:
		return nil, nil, &wal.DamageError{What: "torn"}
	case bug == DamagedIsTorn && errors.As(err, &damage):
		sv.disk.truncateAt(damage.File, damage.Offset)
		log, opened, err = wal.Open(sv.disk, sv.options())
	}
	return log, opened, err
}

// restore loads a snapshot into the machine.
func (sv *server) restore(head *raftpb.Snapshot) error {
	if head == nil || sv.id.Witness() {
		return nil
	}
	r, err := wal.OpenSnapshot(sv.disk, head)
	if err != nil {
		return err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return sv.machine.restore(content)
}

// stop ends the process: killed, or with a power cut.
func (sv *server) stop(powerCut bool) {
	if !sv.up {
		return
	}
	sv.sim.note("stop", sv.number(), uint64(b2i(powerCut)))
	sv.up, sv.frozen, sv.inbox = false, false, nil
	sv.epoch++
	sv.lostLeadership()
	if powerCut {
		sv.disk.Cut()
		return
	}
	sv.disk.Flush() // the system goes on
	sv.sim.net.closed(sv)
}

// input hands something to the process, after a freeze if there is one.
func (sv *server) input(do func()) {
	switch {
	case !sv.up:
	case sv.frozen:
		epoch := sv.epoch
		sv.inbox = append(sv.inbox, func() {
			if sv.epoch == epoch {
				do()
			}
		})
	default:
		sv.node.Advance(sv.local())
		do()
		sv.drive()
	}
}

func (sv *server) freeze(frozen bool) {
	sv.frozen = frozen && sv.up
	if sv.frozen {
		return
	}
	waiting := sv.inbox
	sv.inbox = nil
	for _, do := range waiting {
		sv.input(do)
	}
	sv.input(func() {})
}

func (sv *server) receive(m *raftpb.Message, content []byte) {
	sv.input(func() {
		from := core.ID(m.GetFrom())
		if core.ID(m.GetTo()) != sv.id || sv.seen[from] && !sv.node.IsMember(from) {
			return // a former id: the peer's connection is refused
		}
		sv.sim.note(m.GetType().String(), sv.number(), m.GetFrom(), m.GetTerm(), m.GetIndex())
		if m.GetType() == raftpb.MsgSnap {
			_, err := wal.ReceiveSnapshot(sv.disk, m.GetSnapshot(), func(w io.Writer) error { _, err := w.Write(content); return err })
			if err != nil {
				return // for want of room
			}
		}
		sv.node.Step(m)
	})
}

// drive does what the node wants until there is nothing left.
func (sv *server) drive() {
	for sv.up && !sv.sim.stopped {
		r := sv.node.Ready()
		if r.Fault != nil {
			sv.fault(r.Fault)
			return
		}
		if r.Role != nil {
			sv.changeRole(*r.Role)
		}
		for _, m := range r.Messages {
			sv.send(m)
		}
		sv.queue = append(sv.queue, r.Appends...)
		for _, a := range r.Applies {
			sv.apply(a)
		}
		for _, rd := range r.Reads {
			sv.confirm(rd)
		}
		if r.TakeSnapshot {
			sv.takeSnapshot()
		}
		sv.save()
		if len(r.Messages)+len(r.Appends)+len(r.Applies) == 0 {
			sv.plan(r.Wake)
			return
		}
	}
}

func (sv *server) fault(err error) {
	if sv.sim.options.Bug == NoBug && !sv.sim.options.Lying || sv.sim.options.Bug == ReuseID || sv.sim.options.Bug == DamagedIsTorn {
		sv.sim.fail("server %d: %v", sv.place, err)
		return
	}
	sv.quarantine(err.Error())
}

// plan has Advance called when it is due on the server's clock.
func (sv *server) plan(wake time.Duration) {
	sv.wakeSeq++
	if wake == 0 {
		return
	}
	seq, epoch := sv.wakeSeq, sv.epoch
	in := max(0, time.Duration(float64(wake-sv.local())/sv.rate)) + time.Microsecond
	sv.sim.after(in, func() {
		if sv.wakeSeq == seq && sv.epoch == epoch {
			sv.input(func() {})
		}
	})
}

func (sv *server) send(m *raftpb.Message) {
	sv.sim.check.sent(sv.id, m)
	var content []byte
	if m.GetType() == raftpb.MsgSnap && !core.ID(m.GetTo()).Witness() {
		r, err := wal.OpenSnapshot(sv.disk, m.GetSnapshot())
		if err == nil {
			content, err = io.ReadAll(r)
		}
		if err != nil {
			sv.node.SnapshotSent(core.ID(m.GetTo()), false)
			return
		}
	}
	sv.sim.net.send(sv, m, content)
}

func (sv *server) changeRole(r core.Role) {
	s := sv.sim
	s.note(r.State.String(), sv.number(), r.Term, uint64(r.Leader), uint64(b2i(r.Serving)))
	if sv.role.Serving && !r.Serving {
		sv.lostLeadership()
	}
	s.check.role(sv.id, r)
	if r.State == raft.StateLeader && sv.id.Witness() {
		s.fail("witness %d leads", sv.place)
	}
	sv.role = r
	if r.Serving {
		for _, c := range s.clients {
			c.hear(sv)
		}
	}
}

// save begins to write the next appends, one or several at once.
func (sv *server) save() {
	s := sv.sim
	if sv.saving || len(sv.queue) == 0 || !sv.up {
		return
	}
	if wait := sv.stall - s.now; wait > 0 {
		sv.saving = true
		sv.later(min(wait, 50*time.Millisecond), func() { sv.saving = false }) // healing ends it
		return
	}
	n := 1
	if s.chance(0.5) {
		for n < len(sv.queue) && sv.queue[n].Snapshot == nil && sv.queue[0].Snapshot == nil {
			n++
		}
	}
	batch := sv.queue[:n]
	if err := sv.write(batch); err != nil {
		if errors.Is(err, wal.ErrNoSpace) {
			sv.node.SetFull(true)
			sv.saving = true
			sv.later(100*time.Millisecond, func() { sv.saving = false })
			return
		}
		s.fail("server %d: %v", sv.place, err)
		return
	}
	sv.node.SetFull(false)
	sv.queue = sv.queue[n:]
	sv.saving, sv.writing = true, 0
	for _, a := range batch {
		for _, e := range a.Entries {
			sv.writing += len(e.Data)
		}
	}
	s.saveBegun()
	sv.later(s.between(time.Millisecond, 8*time.Millisecond), func() {
		sv.saving, sv.writing = false, 0
		sv.disk.Flush()
		for _, a := range batch {
			sv.saved(a)
		}
	})
}

// later has the process do something, unless it ends before.
func (sv *server) later(d time.Duration, do func()) {
	epoch := sv.epoch
	sv.sim.after(d, func() {
		if sv.epoch == epoch {
			sv.input(do)
		}
	})
}

func (sv *server) write(batch []*core.Append) error {
	var hs *raftpb.HardState
	var entries []*raftpb.Entry
	for _, a := range batch {
		if a.HardState != nil {
			hs = a.HardState
		}
		if a.Snapshot != nil {
			if err := sv.log.Install(hs, a.Snapshot); err != nil {
				return err
			}
		}
		entries = append(entries, a.Entries...)
	}
	return sv.log.Save(hs, entries)
}

func (sv *server) saved(a *core.Append) {
	s := sv.sim
	s.note("saved", sv.number(), uint64(len(a.Entries)))
	if a.Snapshot != nil {
		if err := sv.restore(a.Snapshot); err != nil {
			s.fail("server %d: %v", sv.place, err)
			return
		}
		s.result.Snapshots++
		s.check.installed(sv.id, a.Snapshot)
	}
	s.check.saved(sv.id, a.Entries)
	sv.node.Saved(a)
	if s.options.Bug == ApplyEarly {
		sv.applyEarly(a)
	}
	if s.options.Bug == AckAtOne && sv.role.Serving {
		for _, e := range a.Entries {
			sv.acknowledge(e.GetIndex(), e.GetTerm())
		}
	}
}

func (sv *server) applyEarly(a *core.Append) {
	for _, e := range a.Entries {
		if e.GetType() == raftpb.EntryNormal && len(e.Data) > 1 && e.Data[0] == 0 {
			sv.machine.apply(sv, core.Record{Index: e.GetIndex(), Term: e.GetTerm(), Data: e.Data[1:]})
		}
	}
}

func (sv *server) apply(a *core.Apply) {
	s := sv.sim
	for _, r := range a.Records {
		if s.options.Bug != ApplyEarly {
			sv.machine.apply(sv, r)
		}
		sv.acknowledge(r.Index, r.Term)
	}
	sv.node.Applied(a)
	sv.noteMembers()
	sv.answerReads()
}

func (sv *server) noteMembers() {
	m := sv.node.Members()
	if n := len(sv.members); n == 0 || sv.members[n-1].Equivalent(m) != nil {
		sv.members = append(sv.members[max(0, n-1):], m)
	}
	for _, ids := range [][]uint64{m.Voters, m.VotersOutgoing, m.Learners, m.LearnersNext} {
		for _, id := range ids {
			sv.seen[core.ID(id)] = true
		}
	}
	for id := range sv.seen {
		if !sv.node.IsMember(id) {
			sv.sim.former[id] = true
		}
	}
}

func (sv *server) takeSnapshot() {
	head := sv.node.Snapshot()
	write := sv.machine.write
	if sv.id.Witness() {
		write = func(io.Writer) error { return nil }
	}
	size, err := wal.WriteSnapshot(sv.disk, head, write)
	if err == nil {
		err = sv.log.Took(head)
	}
	switch {
	case errors.Is(err, wal.ErrNoSpace):
	case err != nil:
		sv.sim.fail("server %d: %v", sv.place, err)
	default:
		sv.node.SnapshotTaken(head, size)
	}
}

// quarantine ends the process and gives the machine another id, with which it joins again.
func (sv *server) quarantine(why string) {
	s := sv.sim
	s.note("quarantine "+why, sv.number())
	s.result.Quarantined++
	sv.stop(false)
	if err := sv.setAside(); err != nil {
		s.fail("server %d: %v", sv.place, err)
		return
	}
	sv.rejoin()
}

// rejoin gives an empty log another id, and starts it.
func (sv *server) rejoin() {
	if sv.sim.options.Bug != ReuseID {
		sv.id = sv.sim.newID(sv.id.Witness())
	}
	sv.broken = false
	sv.disk.SetRoom(1 << 40)
	sv.create(nil)
	sv.start()
}

func (sv *server) setAside() error { return wal.SetAside(sv.disk) }
