package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/verge-edge/verge/internal/quorum/core"
	"github.com/verge-edge/verge/internal/quorum/quorumtest"
	"github.com/verge-edge/verge/internal/quorum/wal"
)

const self = core.ID(0x1234)

var small = wal.Options{SegmentBytes: 8 << 10}

func newDisk(seed uint64) *quorumtest.Disk { return quorumtest.NewDisk(rand.New(rand.NewPCG(seed, 2))) }

func entry(term, index uint64, size int) *raftpb.Entry {
	data := bytes.Repeat([]byte{byte(index)}, size)
	return &raftpb.Entry{Term: &term, Index: &index, Type: raftpb.EntryNormal.Enum(), Data: data}
}

func hard(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func snapshot(term, index uint64) *raftpb.Snapshot {
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		Term: &term, Index: &index, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}},
	}}
}

func content(index uint64) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(bytes.Repeat([]byte{byte(index)}, 3000))
		return err
	}
}

// step is one thing that is done to a log, and the model of it.
type step struct {
	name string
	do   func(*quorumtest.Disk, *wal.Log) error
	then func(*model)
}

// model is what a log holds.
type model struct {
	term, vote, commit uint64
	snap               uint64
	first              uint64 // index of terms[0]
	terms              []uint64
}

func (m *model) save(term, vote, commit uint64, es []*raftpb.Entry) {
	m.term, m.vote, m.commit = term, vote, max(m.commit, commit)
	for _, e := range es {
		m.terms = append(m.terms[:e.GetIndex()-m.first], e.GetTerm())
	}
}

func (m *model) install(term, index uint64) {
	m.term = max(m.term, term)
	m.commit, m.snap, m.first, m.terms = max(m.commit, index), index, index+1, nil
}

func (m *model) clone() model { c := *m; c.terms = slices.Clone(m.terms); return c }

// of is the model of what was opened. What lies before the snapshot is left out.
func of(st core.State) string {
	var b strings.Builder
	snap := st.Snapshot.GetMetadata().GetIndex()
	fmt.Fprintf(&b, "term %d vote %d snap %d:", st.HardState.GetTerm(), st.HardState.GetVote(), snap)
	for _, e := range st.Entries {
		fmt.Fprintf(&b, " %d/%d", e.GetIndex(), e.GetTerm())
		if len(e.Data) > 0 && e.Data[0] != byte(e.GetIndex()) {
			b.WriteString("!")
		}
	}
	return b.String()
}

func (m *model) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "term %d vote %d snap %d:", m.term, m.vote, m.snap)
	for i, term := range m.terms {
		if index := m.first + uint64(i); index > m.snap {
			fmt.Fprintf(&b, " %d/%d", index, term)
		}
	}
	return b.String()
}

func saveStep(term, vote, commit uint64, es ...*raftpb.Entry) step {
	return step{
		name: fmt.Sprintf("save %d entries", len(es)),
		do:   func(_ *quorumtest.Disk, l *wal.Log) error { return l.Save(hard(term, vote, commit), es) },
		then: func(m *model) { m.save(term, vote, commit, es) },
	}
}

func takeStep(term, index uint64) step {
	return step{
		name: fmt.Sprintf("snapshot %d", index),
		do: func(d *quorumtest.Disk, l *wal.Log) error {
			if _, err := wal.WriteSnapshot(d, snapshot(term, index), content(index)); err != nil {
				return err
			}
			return l.Took(snapshot(term, index))
		},
		then: func(m *model) { m.snap = index },
	}
}

func installStep(term, vote, index uint64) step {
	return step{
		name: fmt.Sprintf("install %d", index),
		do: func(d *quorumtest.Disk, l *wal.Log) error {
			if _, err := wal.ReceiveSnapshot(d, snapshot(term, index), content(index)); err != nil {
				return err
			}
			return l.Install(hard(term, vote, index), snapshot(term, index))
		},
		then: func(m *model) { m.install(term, index); m.term, m.vote = term, vote },
	}
}

// life is that of a log: segments are cut, entries replaced, snapshots taken and received.
func life() (steps []step) {
	steps = append(steps, saveStep(1, 7, 1))
	for i := uint64(2); i < 30; i++ {
		steps = append(steps, saveStep(1, 7, i-1, entry(1, i, int(i*40))))
	}
	steps = append(steps,
		saveStep(2, 0, 28, entry(2, 29, 700), entry(2, 30, 10), entry(2, 31, 2000)), // replaces 29
		takeStep(1, 20), takeStep(1, 28),
		saveStep(3, 9, 28),
		saveStep(3, 9, 28, entry(3, 30, 100)), // replaces 30, 31
		saveStep(3, 9, 30, entry(3, 31, 9000)),
		installStep(4, 0, 50),
		saveStep(4, 3, 50, entry(4, 51, 100), entry(4, 52, 3000)),
		takeStep(4, 51))
	for i := uint64(53); i < 70; i++ {
		steps = append(steps, saveStep(4, 3, i-1, entry(4, i, 900)))
	}
	return append(steps, takeStep(4, 68))
}

func create(t testing.TB, d *quorumtest.Disk) (*wal.Log, *model) {
	t.Helper()
	l, st, err := wal.Create(d, self, snapshot(1, 1), content(1), small)
	if err != nil {
		t.Fatal(err)
	}
	m := &model{term: 1, commit: 1, snap: 1, first: 2}
	if got := of(st); got != m.String() {
		t.Fatalf("a new log has %s, want %s", got, m)
	}
	return l, m
}

func TestOpenHasWhatWasSaved(t *testing.T) {
	d := newDisk(1)
	l, m := create(t, d)
	for i, s := range life() {
		if err := s.do(d, l); err != nil {
			t.Fatalf("step %d, %s: %v", i, s.name, err)
		}
		s.then(m)
		again, got, err := wal.Open(d, small)
		if err != nil {
			t.Fatalf("after step %d, %s: %v", i, s.name, err)
		}
		if of(got.State) != m.String() || got.Server != self || got.Torn != 0 {
			t.Fatalf("after step %d, %s: %s, want %s", i, s.name, of(got.State), m)
		}
		if i%3 == 0 {
			l = again // goes on where the other one stopped
		}
	}
	if r, err := wal.Inspect(d); err != nil || r.Index != 69 || r.Snapshot != 68 || r.Damage != nil || r.Term != 4 {
		t.Errorf("inspected: %+v, %v", r, err)
	}
	names, _ := d.List()
	if len(names) > 7 {
		t.Errorf("these files are left: %q", names)
	}
	r, err := wal.OpenSnapshot(d, snapshot(4, 68))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, bytes.Repeat([]byte{68}, 3000)) {
		t.Errorf("the snapshot has %d bytes, %v", len(b), err)
	}
}

// The power is cut before each I/O operation in turn, with several choices of what is lost. What
// was acknowledged is there, and what was not is there whole or not at all.
func TestPowerCutAtEachOperation(t *testing.T) {
	torn := 0
	for seed := range uint64(6) {
		for n := 1; ; n++ {
			d := newDisk(seed<<32 + uint64(n))
			l, m := create(t, d)
			d.CrashAfter(n)
			before, after, done := m.clone(), m.clone(), false
			func() {
				defer func() {
					if p := recover(); p != nil && p != (quorumtest.PowerCut{}) {
						panic(p)
					}
				}()
				for _, s := range life() {
					before = after.clone()
					s.then(&after)
					if err := s.do(d, l); err != nil {
						t.Fatalf("seed %d, operation %d, %s: %v", seed, n, s.name, err)
					}
					before = after.clone()
				}
				done = true
			}()
			d.Cut()
			reopened(t, d, fmt.Sprintf("seed %d, operation %d", seed, n), before, after, &torn)
			if done {
				break
			}
		}
	}
	if torn < 20 {
		t.Errorf("only %d torn batches were met", torn)
	}
}

func reopened(t *testing.T, d *quorumtest.Disk, when string, before, after model, torn *int) {
	t.Helper()
	l, got, err := wal.Open(d, small)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if got.Torn > 0 {
		*torn++
	}
	have := of(got.State)
	// Between a received snapshot and the hard state beside it there may be a power cut.
	if have != before.String() && have != after.String() {
		t.Fatalf("%s: %s, want %s or %s", when, have, before.String(), after.String())
	}
	m := before
	if have != before.String() {
		m = after
	}
	last := m.first + uint64(len(m.terms))
	if err := l.Save(hard(9, 9, last-1), []*raftpb.Entry{entry(9, last, 800)}); err != nil {
		t.Fatalf("%s: save afterwards: %v", when, err)
	}
	m.save(9, 9, last-1, []*raftpb.Entry{entry(9, last, 800)})
	if _, got, err = wal.Open(d, small); err != nil || of(got.State) != m.String() || got.Torn != 0 {
		t.Fatalf("%s: afterwards: %v, want %s", when, err, m.String())
	}
}

// lived is a disk with a log whose last batch has several sectors.
func lived(t *testing.T) (*quorumtest.Disk, *model) {
	t.Helper()
	d := newDisk(3)
	l, m := create(t, d)
	for _, s := range append(life(), saveStep(5, 1, 69, entry(5, 70, 2200))) {
		if err := s.do(d, l); err != nil {
			t.Fatal(err)
		}
		s.then(m)
	}
	return d, m
}

func lastSegment(d *quorumtest.Disk) (name string, sectors int) {
	names, _ := d.List()
	for _, n := range names {
		if strings.HasPrefix(n, "log-") {
			name = n
		}
	}
	return name, used(d.Content(name))
}

func used(content []byte) (n int) {
	for i := 0; i < len(content); i += 512 {
		if content[i] != 0 {
			n = i/512 + 1
		}
	}
	return n
}

// Any sectors of the last batch may be missing after a power cut: then it is torn.
func TestTornInEachWay(t *testing.T) {
	const sectors = 5
	for missing := 1; missing < 1<<sectors; missing++ {
		d, m := lived(t)
		name, n := lastSegment(d)
		for i := range sectors {
			if missing>>i&1 == 1 {
				d.Hit(name, n-sectors+i, quorumtest.Lost)
			}
		}
		_, got, err := wal.Open(d, small)
		if err != nil {
			t.Fatalf("without sectors %05b: %v", missing, err)
		}
		want := m.clone()
		want.term, want.vote, want.terms = 4, 3, want.terms[:len(want.terms)-1]
		if of(got.State) != want.String() || (got.Torn > 0) != (missing != 1<<sectors-1) {
			t.Fatalf("without sectors %05b: %s, torn %d, want %s", missing, of(got.State), got.Torn, want.String())
		}
		if _, again, err := wal.Open(d, small); err != nil || again.Torn != 0 {
			t.Fatalf("without sectors %05b, opened again: %v", missing, err)
		}
	}
}

// A flipped bit anywhere, or a lost sector anywhere before the last batch, is found, or hits what
// is not needed: an older snapshot, or one that the older one and the log stand in for, and seals
// of segments that another one follows.
func TestDamageIsFound(t *testing.T) {
	d, _ := lived(t)
	names, _ := d.List()
	last, n := lastSegment(d)
	found, mended := 0, 0
	for _, name := range names {
		for sector := range used(d.Content(name)) {
			for kind := range quorumtest.Damage(2) {
				if kind == quorumtest.Lost && name == last && sector >= n-5 {
					continue // as if it was torn
				}
				for range 3 { // other bits
					d, m := lived(t)
					d.Hit(name, sector, kind)
					_, got, err := wal.Open(d, small)
					switch {
					case errors.Is(err, wal.ErrDamaged):
						found++
					case err != nil || got.Torn > 0 || !sameEnd(of(got.State), m):
						t.Fatalf("%s, sector %d, damage %d: %v, %s", name, sector, kind, err, of(got.State))
					case got.Mended == name:
						mended++
					}
				}
			}
		}
	}
	if found < 100 || mended == 0 {
		t.Errorf("%d damages were found, %d snapshots replaced by the one before", found, mended)
	}
}

// sameEnd compares from the newest snapshot on: an older one gives more entries, and the same in
// the end.
func sameEnd(have string, m *model) bool {
	want := m.String()
	return strings.HasSuffix(have, want[strings.Index(want, ":")+1:])
}

func TestMissingFiles(t *testing.T) {
	d, _ := lived(t)
	names, _ := d.List()
	found := 0
	for _, name := range names {
		d, m := lived(t)
		d.Drop(name)
		_, got, err := wal.Open(d, small)
		if errors.Is(err, wal.ErrDamaged) {
			found++
		} else if err != nil || !sameEnd(of(got.State), m) {
			t.Errorf("without %s: %v", name, err)
		}
	}
	if found < 2 {
		t.Errorf("only %d of %d missing files were missed", found, len(names))
	}
	for _, name := range names {
		if strings.HasPrefix(name, "snap-") {
			d.Drop(name)
		}
	}
	if _, _, err := wal.Open(d, small); !errors.Is(err, wal.ErrDamaged) {
		t.Errorf("without snapshots: %v", err)
	}
	if _, _, err := wal.Open(newDisk(1), small); !errors.Is(err, wal.ErrNone) {
		t.Errorf("an empty disk: %v", err)
	}
}

// The entries that a later leader replaces may begin in a segment that a snapshot has made
// superfluous.
func TestReplacedAcrossRemovedSegments(t *testing.T) {
	d := newDisk(4)
	l, m := create(t, d)
	steps := []step{
		saveStep(1, 0, 1, entry(1, 2, 3000), entry(1, 3, 3000)),
		saveStep(1, 0, 2, entry(1, 4, 3000)), // in another segment
		saveStep(2, 0, 2, entry(2, 3, 100), entry(2, 4, 100), entry(2, 5, 100)),
		saveStep(2, 0, 5, entry(2, 6, 100)),
		takeStep(2, 4), takeStep(2, 5),
	}
	for _, s := range steps {
		if err := s.do(d, l); err != nil {
			t.Fatal(err)
		}
		s.then(m)
	}
	r, err := wal.Inspect(d)
	if err != nil || r.Damage != nil || r.Segments != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if _, got, err := wal.Open(d, small); err != nil || of(got.State) != m.String() {
		t.Errorf("%v, want %s", err, m)
	}
}

func TestFullDisk(t *testing.T) {
	d := newDisk(5)
	l, m := create(t, d)
	d.SetRoom(0)
	full := 0
	for i := uint64(2); i < 40; i++ {
		s := saveStep(1, 1, i-1, entry(1, i, 700))
		err := s.do(d, l)
		if errors.Is(err, wal.ErrNoSpace) {
			full++
			if _, got, err := wal.Open(d, small); err != nil || of(got.State) != m.String() {
				t.Fatalf("a full disk: %v, want %s", err, m)
			}
			d.SetRoom(1 << 20)
			err = s.do(d, l)
			d.SetRoom(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.then(m)
	}
	if _, got, err := wal.Open(d, small); err != nil || of(got.State) != m.String() || full < 3 {
		t.Errorf("%v, full %d times, want %s", err, full, m)
	}
	d.SetRoom(-1)
	if _, err := wal.WriteSnapshot(d, snapshot(1, 30), content(30)); !errors.Is(err, wal.ErrNoSpace) {
		t.Errorf("a snapshot: %v", err)
	}
}

// After a failed write or sync it is not known what is on disk.
func TestFailedWriteIsFinal(t *testing.T) {
	d := newDisk(6)
	l, m := create(t, d)
	bad := errors.New("input/output error")
	d.Break(bad)
	if err := l.Save(hard(1, 1, 1), nil); !errors.Is(err, bad) {
		t.Errorf("save: %v", err)
	}
	d.Break(nil)
	if err := l.Save(hard(1, 1, 1), nil); !errors.Is(err, bad) {
		t.Errorf("save after a failure: %v", err)
	}
	if _, got, err := wal.Open(d, small); err != nil || of(got.State) != m.String() {
		t.Errorf("%v, want %s", err, m)
	}
}

func TestSetAside(t *testing.T) {
	d, _ := lived(t)
	names, _ := d.List()
	d.Hit(names[0], 0, quorumtest.Flip)
	for range 2 {
		if err := wal.SetAside(d); err != nil {
			t.Fatal(err)
		}
		if _, _, err := wal.Open(d, small); !errors.Is(err, wal.ErrDamaged) {
			t.Errorf("set aside, and not made anew: %v", err)
		}
	}
	if _, _, err := wal.Create(d, self+2, nil, nil, small); err != nil {
		t.Fatal(err)
	}
	_, got, err := wal.Open(d, small)
	if err != nil || got.Server != self+2 || len(got.State.Entries) > 0 {
		t.Errorf("a new log: %+v, %v", got, err)
	}
	if r, err := wal.Inspect(d); err != nil || r.SetAside != len(names) {
		t.Errorf("%+v, %v, want %d files aside", r, err, len(names))
	}
	if _, _, err := wal.Create(d, self, nil, nil, small); err == nil {
		t.Error("a log was made over another one")
	}
}

// A snapshot that was received and not installed counts for nothing; one that was installed
// counts even if the process ended before it had its name.
func TestReceivedSnapshot(t *testing.T) {
	d := newDisk(7)
	l, m := create(t, d)
	if _, err := wal.ReceiveSnapshot(d, snapshot(3, 40), content(40)); err != nil {
		t.Fatal(err)
	}
	_, got, err := wal.Open(d, small)
	if err != nil || of(got.State) != m.String() {
		t.Errorf("received: %v, want %s", err, m)
	}
	if names, _ := d.List(); slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "recv-") }) {
		t.Errorf("it is still there: %q", names)
	}
	s := installStep(3, 0, 40)
	if err := s.do(d, l); err != nil {
		t.Fatal(err)
	}
	s.then(m)
	if err := d.Rename("snap-0000000000000003-0000000000000028", "recv-0000000000000003-0000000000000028"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, got, err := wal.Open(d, small); err != nil || of(got.State) != m.String() {
			t.Errorf("installed: %v, want %s", err, m)
		}
	}
}

// A sector of the middle that becomes zeros is no torn write, wherever it lies: others were synced
// after it.
func TestZeroedSectorIsDamage(t *testing.T) {
	for _, size := range []int{16, 100, 440, 1000} {
		write := func() *quorumtest.Disk {
			d := newDisk(8)
			l, _, err := wal.Create(d, self, snapshot(1, 1), content(1), wal.Options{SegmentBytes: 64 << 10})
			for i := uint64(2); i < 42 && err == nil; i++ {
				err = l.Save(hard(1, 1, i-1), []*raftpb.Entry{entry(1, i, size)})
			}
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		name, n := lastSegment(write())
		last := (size + 64 + 510) / 511 // sectors of the last batch
		for sector := range n - last {
			d := write()
			d.Hit(name, sector, quorumtest.Lost)
			if _, got, err := wal.Open(d, small); !errors.Is(err, wal.ErrDamaged) {
				t.Errorf("entries of %d bytes, sector %d of %d: %+v, %v", size, sector, n, got, err)
			}
		}
	}
}

// That a change of the members is committed is synced even if nothing else is written: after a
// restart a server asks those for votes that it knows as members.
func TestCommittedChangeIsSynced(t *testing.T) {
	d := newDisk(9)
	l, _ := create(t, d)
	change := entry(1, 2, 10)
	change.Type = raftpb.EntryConfChangeV2.Enum()
	for _, err := range []error{
		l.Save(hard(1, 1, 1), []*raftpb.Entry{change, entry(1, 3, 10)}), l.Save(hard(1, 1, 2), nil), l.Save(hard(1, 1, 3), nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d.Cut()
	if _, got, err := wal.Open(d, small); err != nil || got.State.HardState.GetCommit() != 2 {
		t.Errorf("%v, %v", got.State.HardState, err)
	}
}

// A process that is killed before its sync is over leaves what it wrote in the system's memory. What
// Open returns of that is told to others, and must outlast the next power cut.
func TestWhatOpenReturnsIsSynced(t *testing.T) {
	for seed := range uint64(20) {
		for _, size := range []int{100, 9 << 10} { // in the segment; in another one
			d := newDisk(seed)
			l, _ := create(t, d)
			if err := l.Save(hard(1, 1, 1), []*raftpb.Entry{entry(1, 2, 10)}); err != nil {
				t.Fatal(err)
			}
			d.SetLying(true)
			if err := l.Save(hard(2, 2, 1), []*raftpb.Entry{entry(2, 3, size)}); err != nil {
				t.Fatal(err)
			}
			d.SetLying(false)
			opened, before, err := wal.Open(d, small)
			if err != nil {
				t.Fatal(err)
			}
			if err := opened.Close(); err != nil {
				t.Fatal(err)
			}
			d.Cut()
			_, after, err := wal.Open(d, small)
			if err != nil {
				t.Fatalf("seed %d, %d bytes: %v", seed, size, err)
			}
			if want, got := of(before.State), of(after.State); got != want {
				t.Errorf("seed %d, %d bytes: before the power cut %s, after it %s", seed, size, want, got)
			}
		}
	}
}
