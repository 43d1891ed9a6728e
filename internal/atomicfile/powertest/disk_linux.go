package powertest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Disk is a file system that is mounted until the test ends.
type Disk struct {
	dir    string
	server *fuse.Server

	mu      sync.Mutex
	cut     bool
	nodes   map[uint64]*node // all that were ever there: a test is short
	handles map[uint64][]string
	next    uint64
	onSync  func() // called before each fsync, without mu
}

// node is a file, a directory, or something with a name only.
type node struct {
	attr  fuse.Attr
	link  string           // of a symbolic link
	names map[string]*node // of a directory
	data  []byte           // of a file
	// What is left after a power cut. Of data all but from dirty to dirtyEnd is in
	// synced already.
	syncedNames     map[string]*node
	synced          []byte
	dirty, dirtyEnd int
}

// New mounts an empty disk at dir, which exists. Without root or FUSE it skips the
// test; where nothing may be skipped it fails, unless the kernel has no FUSE.
func New(t testing.TB, dir string) *Disk {
	t.Helper()
	if why := missing(); why != "" {
		if os.Getenv("VERGE_CI_NO_SKIP") != "" && hasFUSE() {
			t.Fatal(why)
		}
		t.Skip("SKIPPED: a file system that loses what was not synced: " + why)
	}
	d := &Disk{dir: dir, nodes: map[uint64]*node{}, handles: map[uint64][]string{}, next: fuse.FUSE_ROOT_ID}
	d.newNode(syscall.S_IFDIR|0o755, fuse.Owner{})
	d.mount(t)
	t.Cleanup(d.unmount)
	return d
}

func missing() string {
	if os.Geteuid() != 0 {
		return "only root may mount"
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return err.Error()
	}
	return ""
}

// hasFUSE says whether the kernel knows FUSE, whatever this process may do.
func hasFUSE() bool {
	known, err := os.ReadFile("/proc/filesystems")
	return err != nil || strings.Contains(string(known), "\tfuse\n")
}

func (d *Disk) mount(t testing.TB) {
	t.Helper()
	server, err := fuse.NewServer(requests{fuse.NewDefaultRawFileSystem(), d}, d.dir, &fuse.MountOptions{
		FsName: "powertest", Name: "powertest", DirectMountStrict: true, AllowOther: true, DisableXAttrs: true,
		DisableReadDirPlus: true, MaxWrite: 1 << 20,
	})
	if err != nil {
		t.Fatalf("mount a file system that loses what was not synced: %v", err)
	}
	d.server = server
	go server.Serve() // until it is unmounted, for which unmount waits
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
}

// unmount also ends what still waits for an answer: the process may be the one that has
// to give it.
func (d *Disk) unmount() {
	_ = unix.Unmount(d.dir, unix.MNT_FORCE) // aborts the connection; it is busy where files are open
	_ = unix.Unmount(d.dir, unix.MNT_DETACH)
	d.server.Wait()
}

// Cut is a power cut: what is stored at this moment is what will be there, and
// everything that is asked for from now on fails.
func (d *Disk) Cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
}

// Return mounts what the power cut has left, once nobody uses what was there.
func (d *Disk) Return(t testing.TB) {
	t.Helper()
	d.Cut()
	d.unmount()
	kept := map[*node]*node{}
	root := left(d.nodes[fuse.FUSE_ROOT_ID], kept)
	d.nodes, d.handles, d.cut = map[uint64]*node{}, map[uint64][]string{}, false
	for _, n := range kept {
		d.nodes[n.attr.Ino] = n
	}
	if root.attr.Ino != fuse.FUSE_ROOT_ID {
		t.Fatal("the root of the file system has moved")
	}
	d.mount(t)
}

// left is what of n a power cut leaves.
func left(n *node, kept map[*node]*node) *node {
	if k := kept[n]; k != nil {
		k.attr.Nlink++
		return k
	}
	k := &node{attr: n.attr, link: n.link}
	kept[n] = k
	k.attr.Nlink = 1
	if n.names == nil {
		k.synced, k.data = slices.Clone(n.synced), slices.Clone(n.synced)
		return k
	}
	k.names = map[string]*node{}
	for name, c := range n.syncedNames {
		k.names[name] = left(c, kept)
	}
	k.syncedNames = maps.Clone(k.names)
	return k
}

// OnSync has f called before each fsync, of a file or of a directory.
func (d *Disk) OnSync(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onSync = f
}

// Unsynced lists the files below the directory at path that a power cut would lose, or
// would cut short, to say in a test what was forgotten. Paths are relative to path.
func (d *Disk) Unsynced(path string) (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[fuse.FUSE_ROOT_ID]
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		if part != "" && n != nil {
			n = n.names[part]
		}
	}
	if n == nil {
		return nil
	}
	var walk func(at string, n *node)
	walk = func(at string, n *node) {
		for name, c := range n.names {
			switch here := at + name; {
			case n.syncedNames[name] != c:
				out = append(out, here+" (its name)")
			case c.names != nil:
				walk(here+"/", c)
			case c.dirtyEnd > c.dirty || len(c.synced) != len(c.data):
				out = append(out, fmt.Sprintf("%s (%d of %d bytes)", here, len(c.synced), len(c.data)))
			}
		}
	}
	walk("", n)
	slices.Sort(out)
	return out
}

func (d *Disk) newNode(mode uint32, owner fuse.Owner) *node {
	n := &node{attr: fuse.Attr{Ino: d.next, Mode: mode, Nlink: 1, Owner: owner, Blksize: 4096}}
	if mode&syscall.S_IFMT == syscall.S_IFDIR {
		n.names = map[string]*node{}
	}
	n.touch()
	d.nodes[d.next] = n
	d.next++
	return n
}

func (n *node) touch() {
	now := time.Now()
	n.attr.SetTimes(&now, &now, &now)
}

func (n *node) attributes() fuse.Attr {
	a := n.attr
	a.Size = uint64(len(n.data) + len(n.link))
	a.Blocks = (a.Size + 511) / 512
	return a
}

func (n *node) changed(from, to int) {
	if n.dirtyEnd == n.dirty {
		n.dirty, n.dirtyEnd = from, to
	}
	n.dirty, n.dirtyEnd = min(n.dirty, from), max(n.dirtyEnd, to)
	n.touch()
}

func (n *node) resize(size int) {
	if size <= len(n.data) {
		n.data = n.data[:size]
		n.touch()
		return
	}
	from := len(n.data)
	n.data = append(n.data, make([]byte, size-from)...)
	n.changed(from, size)
}

// do runs f with the node of a request, unless the power is gone.
func (d *Disk) do(id uint64, f func(n *node) fuse.Status) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[id]
	switch {
	case d.cut:
		return fuse.EIO
	case n == nil:
		return fuse.ENOENT
	}
	return f(n)
}

func entry(n *node, out *fuse.EntryOut) fuse.Status {
	out.NodeId, out.Generation, out.Attr = n.attr.Ino, 1, n.attributes()
	out.SetEntryTimeout(time.Second)
	out.SetAttrTimeout(time.Second)
	return fuse.OK
}

func attributes(n *node, out *fuse.AttrOut) fuse.Status {
	out.Attr = n.attributes()
	out.SetTimeout(time.Second)
	return fuse.OK
}

// requests are what the kernel asks a disk for.
type requests struct {
	fuse.RawFileSystem // what is not there below
	*Disk
}

func (d requests) String() string { return "powertest" }

func (d requests) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	return d.do(h.NodeId, func(n *node) fuse.Status {
		if c := n.names[name]; c != nil {
			return entry(c, out)
		}
		return fuse.ENOENT
	})
}

func (d requests) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status { return attributes(n, out) })
}

func (d requests) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status {
		if mode, ok := in.GetMode(); ok {
			n.attr.Mode = n.attr.Mode&syscall.S_IFMT | mode&0o7777
		}
		if uid, ok := in.GetUID(); ok {
			n.attr.Uid = uid
		}
		if gid, ok := in.GetGID(); ok {
			n.attr.Gid = gid
		}
		if size, ok := in.GetSize(); ok {
			n.resize(int(size)) //nolint:gosec // a test's files are small
		}
		if at, ok := in.GetMTime(); ok {
			n.attr.SetTimes(nil, &at, nil)
		}
		if at, ok := in.GetATime(); ok {
			n.attr.SetTimes(&at, nil, nil)
		}
		return attributes(n, out)
	})
}

// add puts a new node into a directory.
func (d *Disk) add(h *fuse.InHeader, name string, mode uint32, out *fuse.EntryOut) (added *node, _ fuse.Status) {
	status := d.do(h.NodeId, func(n *node) fuse.Status {
		if n.names[name] != nil {
			return fuse.Status(syscall.EEXIST)
		}
		added = d.newNode(mode, h.Owner)
		n.names[name] = added
		n.touch()
		return entry(added, out)
	})
	return added, status
}

func (d requests) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	n, status := d.add(&in.InHeader, name, in.Mode, out)
	if n != nil {
		n.attr.Rdev = in.Rdev
	}
	return status
}

func (d requests) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	_, status := d.add(&in.InHeader, name, syscall.S_IFDIR|in.Mode, out)
	return status
}

func (d requests) Symlink(_ <-chan struct{}, h *fuse.InHeader, to, name string, out *fuse.EntryOut) fuse.Status {
	n, status := d.add(h, name, syscall.S_IFLNK|0o777, out)
	if n != nil {
		n.link = to
	}
	return status
}

func (d requests) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	_, status := d.add(&in.InHeader, name, syscall.S_IFREG|in.Mode&0o7777, &out.EntryOut)
	return status
}

func (d requests) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	return d.do(in.NodeId, func(dir *node) fuse.Status {
		n := d.nodes[in.Oldnodeid]
		if n == nil {
			return fuse.ENOENT
		}
		if dir.names[name] != nil {
			return fuse.Status(syscall.EEXIST)
		}
		dir.names[name] = n
		n.attr.Nlink++
		return entry(n, out)
	})
}

func (d requests) Readlink(_ <-chan struct{}, h *fuse.InHeader) (to []byte, _ fuse.Status) {
	status := d.do(h.NodeId, func(n *node) fuse.Status { to = []byte(n.link); return fuse.OK })
	return to, status
}

func (d requests) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return d.remove(h, name, false)
}

func (d requests) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return d.remove(h, name, true)
}

func (d *Disk) remove(h *fuse.InHeader, name string, dir bool) fuse.Status {
	return d.do(h.NodeId, func(n *node) fuse.Status {
		c := n.names[name]
		switch {
		case c == nil:
			return fuse.ENOENT
		case dir && c.names == nil:
			return fuse.ENOTDIR
		case !dir && c.names != nil:
			return fuse.Status(syscall.EISDIR)
		case len(c.names) > 0:
			return fuse.Status(syscall.ENOTEMPTY)
		}
		delete(n.names, name)
		c.attr.Nlink--
		n.touch()
		return fuse.OK
	})
}

func (d requests) Rename(_ <-chan struct{}, in *fuse.RenameIn, from, to string) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status {
		target, moved := d.nodes[in.Newdir], n.names[from]
		if target == nil || moved == nil {
			return fuse.ENOENT
		}
		old := target.names[to]
		switch {
		case in.Flags&^unix.RENAME_NOREPLACE != 0:
			return fuse.EINVAL
		case old != nil && in.Flags != 0:
			return fuse.Status(syscall.EEXIST)
		case old != nil && len(old.names) > 0:
			return fuse.Status(syscall.ENOTEMPTY)
		case old == moved:
			return fuse.OK
		}
		if old != nil {
			old.attr.Nlink--
		}
		delete(n.names, from)
		target.names[to] = moved
		n.touch()
		target.touch()
		return fuse.OK
	})
}

func (d requests) Open(_ <-chan struct{}, in *fuse.OpenIn, _ *fuse.OpenOut) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status {
		if in.Flags&syscall.O_TRUNC != 0 {
			n.resize(0)
		}
		return fuse.OK
	})
}

func (d requests) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (out fuse.ReadResult, _ fuse.Status) {
	status := d.do(in.NodeId, func(n *node) fuse.Status {
		from := min(int(in.Offset), len(n.data)) //nolint:gosec // a test's files are small
		out = fuse.ReadResultData(slices.Clone(n.data[from:min(from+int(in.Size), len(n.data))]))
		return fuse.OK
	})
	return out, status
}

func (d requests) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	status := d.do(in.NodeId, func(n *node) fuse.Status {
		from := int(in.Offset) //nolint:gosec // a test's files are small
		if end := from + len(data); end > len(n.data) {
			n.resize(end)
		}
		copy(n.data[from:], data)
		n.changed(from, from+len(data))
		return fuse.OK
	})
	return uint32(len(data)), status //nolint:gosec // at most MaxWrite
}

func (d requests) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.beforeSync()
	return d.do(in.NodeId, func(n *node) fuse.Status {
		had := len(n.synced)
		if n.synced = n.synced[:min(had, len(n.data))]; len(n.synced) < len(n.data) {
			n.synced = append(n.synced, n.data[len(n.synced):]...)
		}
		if end := min(n.dirtyEnd, len(n.data)); n.dirty < end {
			copy(n.synced[n.dirty:end], n.data[n.dirty:end])
		}
		n.dirty, n.dirtyEnd = 0, 0
		return fuse.OK
	})
}

func (d requests) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	d.beforeSync()
	return d.do(in.NodeId, func(n *node) fuse.Status { n.syncedNames = maps.Clone(n.names); return fuse.OK })
}

func (d *Disk) beforeSync() {
	d.mu.Lock()
	f := d.onSync
	d.mu.Unlock()
	if f != nil {
		f()
	}
}

func (d requests) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status {
		d.next++
		out.Fh = d.next
		d.handles[out.Fh] = slices.Sorted(maps.Keys(n.names))
		return fuse.OK
	})
}

func (d requests) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return d.do(in.NodeId, func(n *node) fuse.Status {
		list := d.handles[in.Fh]
		for k := int(in.Offset); k < len(list); k++ { //nolint:gosec // an index of list
			mode, ino := uint32(syscall.S_IFREG), uint64(1<<32)
			if c := n.names[list[k]]; c != nil {
				mode, ino = c.attr.Mode, c.attr.Ino
			}
			if !out.AddDirEntry(fuse.DirEntry{Name: list[k], Mode: mode, Ino: ino,
				Off: uint64(k + 1)}) { //nolint:gosec // as above
				break
			}
		}
		return fuse.OK
	})
}

func (d requests) ReleaseDir(in *fuse.ReleaseIn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.handles, in.Fh)
}

func (d requests) Release(<-chan struct{}, *fuse.ReleaseIn) {}

func (d requests) Forget(uint64, uint64) {}

func (d requests) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.OK }

func (d requests) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.OK }

func (d requests) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	const blocks = 16 << 20 // 64 GiB, of which memory is taken as it is used
	*out = fuse.StatfsOut{Bsize: 4096, Frsize: 4096, Blocks: blocks, Bfree: blocks, Bavail: blocks, Files: blocks,
		Ffree: blocks, NameLen: 255}
	return fuse.OK
}
