package quorumtest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/quorum/wal"
)

const sectorSize = 512

// Disk is a wal.Disk in memory that does what disks do to those who trust them: at a power cut
// it loses any sectors that were not synced, and the names whose directory was not.
//
// What is asked of it takes time if it is Deferred: the power may be cut between any two
// operations since the last Flush, while who asked goes on only after it.
type Disk struct {
	Deferred bool

	rand    *rand.Rand
	files   map[string]*inode         // names as the system sees them
	durable map[string]*inode         // names after a power cut
	unnamed []func(map[string]*inode) // changes of names that are not synced
	waiting []func()                  // what has yet to reach the disk

	ops     int // I/O operations so far
	crashAt int // the operation before which the power is cut; 0: none
	epoch   int // files opened before a power cut are dead
	room    int64
	lying   bool  // syncs report success and do nothing
	broken  error // what every write returns; nil: it works
}

// inode is a file.
type inode struct {
	data   []byte         // as the system sees it
	synced []byte         // as it is after a power cut
	dirty  map[int][]byte // sectors that were written and not synced
}

// PowerCut is what an operation panics with when the power is cut before it.
type PowerCut struct{}

// NewDisk is an empty disk whose losses are drawn from r.
func NewDisk(r *rand.Rand) *Disk {
	return &Disk{rand: r, files: map[string]*inode{}, durable: map[string]*inode{}, room: 1 << 40}
}

// CrashAfter cuts the power before the nth operation from now on; 0: never.
func (d *Disk) CrashAfter(n int) {
	d.crashAt = 0
	if n > 0 {
		d.crashAt = d.ops + n
	}
}

// SetRoom sets the bytes that are left.
func (d *Disk) SetRoom(n int64) { d.room = n }

// SetLying makes syncs do nothing, or what they say.
func (d *Disk) SetLying(lying bool) { d.lying = lying }

// Break makes all writes fail from now on; nil: they work again.
func (d *Disk) Break(err error) { d.broken = err }

// Flush says that the time has passed which the operations so far take.
func (d *Disk) Flush() {
	for _, op := range d.waiting {
		op()
	}
	d.waiting = d.waiting[:0]
}

// Cut is a power cut: of what was not synced, any sectors are lost. The disk works again at once.
func (d *Disk) Cut() {
	d.crashAt = 0
	d.epoch++
	n := d.rand.IntN(len(d.waiting) + 1)
	if n > 0 && d.rand.IntN(2) == 0 {
		n = len(d.waiting) - 1 // mostly the sync: disks spend their time there
	}
	d.waiting = d.waiting[:n]
	d.Flush()
	for _, op := range d.unnamed[:d.rand.IntN(len(d.unnamed)+1)] {
		op(d.durable)
	}
	d.unnamed = nil
	d.files = maps.Clone(d.durable)
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		d.files[name].settle(d.rand)
	}
}

// settle keeps some of the sectors that were not synced.
func (n *inode) settle(r *rand.Rand) {
	keep := []float64{0, 1, r.Float64(), r.Float64()}[r.IntN(4)] // none and all are more frequent than by chance
	for _, s := range slices.Sorted(maps.Keys(n.dirty)) {
		if r.Float64() < keep {
			n.persist(s)
		}
	}
	n.data, n.dirty = slices.Clone(n.synced), nil
}

func (n *inode) persist(sector int) {
	from, content := sector*sectorSize, n.dirty[sector]
	if to := from + len(content); to > len(n.synced) {
		n.synced = append(n.synced, make([]byte, to-len(n.synced))...)
	}
	copy(n.synced[from:], content)
}

// op counts an operation and does it, now or when the disk gets round to it.
func (d *Disk) op(do func()) {
	d.ops++
	if d.crashAt > 0 && d.ops >= d.crashAt {
		panic(PowerCut{})
	}
	if d.waiting = append(d.waiting, do); !d.Deferred {
		d.Flush()
	}
}

func (d *Disk) change(op func(map[string]*inode)) {
	d.op(func() { d.unnamed = append(d.unnamed, op) })
	op(d.files)
}

// List implements wal.Disk.
func (d *Disk) List() ([]string, error) { return slices.Sorted(maps.Keys(d.files)), nil }

// Open implements wal.Disk.
func (d *Disk) Open(name string) (wal.File, error) {
	n := d.files[name]
	if n == nil {
		return nil, fmt.Errorf("open %s: it is not there", name)
	}
	return &file{d, n, d.epoch}, nil
}

// Create implements wal.Disk.
func (d *Disk) Create(name string, size int64) (wal.File, error) {
	if size > d.room {
		return nil, fmt.Errorf("create %s: %w", name, wal.ErrNoSpace)
	}
	if d.broken != nil {
		return nil, d.broken
	}
	n := &inode{data: make([]byte, size), synced: make([]byte, size)}
	d.change(func(m map[string]*inode) { m[name] = n })
	return &file{d, n, d.epoch}, nil
}

// Rename implements wal.Disk.
func (d *Disk) Rename(from, to string) error {
	if d.files[from] == nil {
		return fmt.Errorf("rename %s: it is not there", from)
	}
	d.change(func(m map[string]*inode) {
		if n := m[from]; n != nil {
			m[to] = n
			delete(m, from)
		}
	})
	return nil
}

// Remove implements wal.Disk.
func (d *Disk) Remove(name string) error {
	if d.files[name] == nil {
		return fmt.Errorf("remove %s: it is not there", name)
	}
	d.change(func(m map[string]*inode) { delete(m, name) })
	return nil
}

// SyncDir implements wal.Disk.
func (d *Disk) SyncDir() error {
	lying := d.lying
	d.op(func() {
		if lying {
			return
		}
		for _, op := range d.unnamed {
			op(d.durable)
		}
		d.unnamed = nil
	})
	return nil
}

// Damage is what happens to a sector that was synced.
type Damage int

// Kinds of damage.
const (
	Flip Damage = iota // of one bit
	Lost               // the sector is zeros
)

// Hit damages a sector of a file, counted from its beginning.
func (d *Disk) Hit(name string, sector int, kind Damage) {
	n := d.files[name]
	from := sector * sectorSize
	to := min(from+sectorSize, len(n.data))
	if kind == Lost {
		clear(n.data[from:to])
		clear(n.synced[from:to])
		return
	}
	at, bit := from+d.rand.IntN(to-from), byte(1)<<d.rand.IntN(8)
	n.data[at] ^= bit
	n.synced[at] ^= bit
}

// Content of a file, as the system sees it; nil if there is none.
func (d *Disk) Content(name string) []byte {
	if n := d.files[name]; n != nil {
		return n.data
	}
	return nil
}

// truncateAt zeroes a file from an offset on and loses the segments after it; a snapshot is lost.
func (d *Disk) truncateAt(name string, offset int64) {
	if !strings.HasPrefix(name, "log-") {
		d.Drop(name)
		return
	}
	for n := range maps.Clone(d.files) {
		if strings.HasPrefix(n, "log-") && n > name {
			d.Drop(n)
		}
	}
	if f := d.files[name]; f != nil {
		clear(f.data[offset:])
		clear(f.synced[offset:])
	}
}

// Drop loses a file.
func (d *Disk) Drop(name string) {
	delete(d.files, name)
	delete(d.durable, name)
}

type file struct {
	disk  *Disk
	inode *inode
	epoch int
}

var errDead = errors.New("the power was cut since this file was opened")

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if f.epoch != f.disk.epoch {
		return 0, errDead
	}
	if off >= int64(len(f.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.inode.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. The power may be cut within it.
func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if f.epoch != f.disk.epoch {
		return 0, errDead
	}
	if f.disk.broken != nil {
		return 0, f.disk.broken
	}
	n := f.inode
	if end := int(off) + len(p); end > len(n.data) {
		n.data = append(n.data, make([]byte, end-len(n.data))...)
	}
	first, last := int(off)/sectorSize, (int(off)+len(p)-1)/sectorSize
	copy(n.data[off:], p)
	written := slices.Clone(n.data[first*sectorSize : min((last+1)*sectorSize, len(n.data))])
	f.disk.op(func() {
		if n.dirty == nil {
			n.dirty = map[int][]byte{}
		}
		for s := first; s <= last; s++ {
			from := (s - first) * sectorSize
			n.dirty[s] = written[from:min(from+sectorSize, len(written))]
		}
	})
	return len(p), nil
}

// Size implements wal.File.
func (f *file) Size() (int64, error) { return int64(len(f.inode.data)), nil }

// Sync implements wal.File.
func (f *file) Sync() error {
	if f.epoch != f.disk.epoch {
		return errDead
	}
	if f.disk.broken != nil {
		return f.disk.broken
	}
	lying := f.disk.lying
	f.disk.op(func() {
		if lying {
			return
		}
		for s := range f.inode.dirty {
			f.inode.persist(s)
		}
		f.inode.dirty = nil
	})
	return nil
}

// Close implements io.Closer.
func (f *file) Close() error { return nil }

var (
	_ wal.Disk = (*Disk)(nil)
	_ wal.File = (*file)(nil)
)
