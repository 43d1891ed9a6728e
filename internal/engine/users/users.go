package users

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// Users of instances are of this range, which systemd keeps free of its own dynamic
// users and of those of containers ("Users, Groups, UIDs and GIDs on systemd Systems").
const (
	FirstUser = 1_900_000_000
	numUsers  = 1 << 18
)

// ClaimsDir is where the engines of a machine record the users of their instances: a file for
// each, with the directory of the instance. It is empty after a boot; an engine claims again what
// its records say.
const ClaimsDir = "/run/verge/users"

// Pool gives each instance that runs as a process a user that no other instance of the
// machine has, for as long as the instance is here.
type Pool struct {
	claims string // directory
	dir    string // of the engine's instances
	size   uint32 // of the range

	mu   sync.Mutex // guards below
	held map[wire.InstanceID]uint32
	// older run as root, since an engine started them that gave them no users.
	older map[wire.InstanceID]bool
}

// isolating is a driver that can run tasks as users of their own.
type isolating interface {
	// ProbeIsolation says why it cannot (err), or what such a task can still see ("" if nothing).
	ProbeIsolation() (missing string, err error)
}

// Open finds out whether the instances that a driver runs can have users of their own, whose
// directories are in dir. The pool is nil if they cannot. hostUsers are users that descriptors
// may name.
func Open(d runtime.Driver, dir string, hostUsers []string) (*Pool, *wire.Isolation) {
	missing, err := "", errors.New("its runtime cannot run an instance as another user")
	if d, ok := d.(isolating); ok {
		missing, err = d.ProbeIsolation()
	}
	isolation := &wire.Isolation{Users: err == nil, Missing: missing, HostUsers: hostUsers}
	if err != nil {
		isolation.Why = err.Error()
		return nil, isolation
	}
	return New(ClaimsDir, dir), isolation
}

// New is a pool of an engine whose instances have their directories in dir; engines of the machine
// agree by files in claims.
func New(claims, dir string) *Pool {
	return &Pool{claims: claims, dir: dir, size: numUsers, held: map[wire.InstanceID]uint32{},
		older: map[wire.InstanceID]bool{}}
}

// Give returns the user of an instance: had if that is still its own, else a free one. had is 0
// for none.
func (u *Pool) Give(id wire.InstanceID, had uint32) (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if uid, ok := u.held[id]; ok {
		return uid, nil
	}
	unlock, err := u.lock()
	if err != nil {
		return 0, fmt.Errorf("reserve a user for it: %w", err)
	}
	defer unlock()
	h := fnv.New32a()
	_, _ = h.Write([]byte(u.place(id))) // a hash never fails
	first := h.Sum32() % u.size
	if had >= FirstUser && had-FirstUser < u.size {
		first = had - FirstUser
	}
	for i := range u.size {
		uid := FirstUser + (first+i)%u.size
		ok, err := u.claim(uid, id)
		if err != nil {
			return 0, fmt.Errorf("reserve a user for it: %w", err)
		}
		if ok {
			u.held[id] = uid
			return uid, nil
		}
	}
	return 0, fmt.Errorf("no user is free for it: all %d of this machine have instances", u.size)
}

// Release frees the user of an instance that has no files left.
func (u *Pool) Release(id wire.InstanceID) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	uid, ok := u.held[id]
	if !ok {
		return nil
	}
	if err := os.Remove(u.file(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("free user %d: %w", uid, err)
	}
	delete(u.held, id)
	return nil
}

// Note records whether an instance runs as root without being allowed to, and returns a sentence
// about all that do, "" for none.
func (u *Pool) Note(id wire.InstanceID, asRoot bool) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if asRoot {
		u.older[id] = true
	} else {
		delete(u.older, id)
	}
	ids := slices.Sorted(maps.Keys(u.older))
	if len(ids) == 0 {
		return ""
	}
	const shown = 5
	list := strings.Join(ids[:min(len(ids), shown)], ", ")
	if len(ids) > shown {
		list += fmt.Sprintf(" and %d more", len(ids)-shown)
	}
	return fmt.Sprintf("still as root until their next start, since an earlier version started them: %s; then each "+
		"runs as a user of its own, without the rights of root, and sees a /tmp of its own and nothing of the "+
		"worker; what needs root says user: root, which has to be allowed by verge namespace standing NAMESPACE "+
		"allow=host-root and by the worker's --allow-host-user root", list)
}

// claim records that a user is that of an instance; false if it is taken.
func (u *Pool) claim(uid uint32, id wire.InstanceID) (bool, error) {
	place := u.place(id)
	b, err := os.ReadFile(u.file(uid))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case string(b) == place:
		return true, nil
	case len(b) > 0:
		// An engine that is gone for good, with its directory, has left it.
		if _, err := os.Lstat(string(b)); !errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
	}
	return true, os.WriteFile(u.file(uid), []byte(place), 0o600)
}

// lock keeps the other engines of the machine from claiming anything meanwhile.
func (u *Pool) lock() (unlock func(), err error) {
	if err := os.MkdirAll(u.claims, 0o700); err != nil {
		return nil, err
	}
	d, err := os.Open(u.claims)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil { //nolint:gosec // a descriptor
		return nil, errors.Join(err, d.Close())
	}
	return func() { _ = d.Close() }, nil // which unlocks it
}

func (u *Pool) place(id wire.InstanceID) string { return filepath.Join(u.dir, id) }

func (u *Pool) file(uid uint32) string {
	return filepath.Join(u.claims, strconv.FormatUint(uint64(uid), 10))
}

// Lookup finds a user of this machine by NAME or UID, with :GROUP or without; nil is
// root.
func Lookup(text string) (*runtime.User, error) {
	if api.IsRoot(text) {
		return nil, nil //nolint:nilnil // see above
	}
	name, group, grouped := strings.Cut(text, ":")
	u := &runtime.User{}
	if id, err := strconv.ParseUint(name, 10, 31); err == nil {
		u.UID, u.GID = uint32(id), uint32(id)
		if known, err := user.LookupId(name); err == nil {
			u.GID = number(known.Gid)
		}
	} else {
		known, err := user.Lookup(name)
		if err != nil {
			return nil, fmt.Errorf("user %s is not known on this worker; make it there, or leave user out", name)
		}
		u.UID, u.GID = number(known.Uid), number(known.Gid)
	}
	if u.UID == 0 {
		return nil, fmt.Errorf("user %s of this worker is root; write user: root", name)
	}
	if !grouped {
		return u, nil
	}
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		u.GID = uint32(id)
		return u, nil
	}
	known, err := user.LookupGroup(group)
	if err != nil {
		return nil, fmt.Errorf("group %s is not known on this worker; make it there, or leave it out", group)
	}
	u.GID = number(known.Gid)
	return u, nil
}

// number is what /etc/passwd has as one; 2³²-2 is nobody.
func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 1<<32 - 2
	}
	return uint32(n)
}

// Refuses says why this worker does not run a service as the user that it names, "" if it does.
func Refuses(s *api.Service, allowed []string, isolation *wire.Isolation) string {
	switch {
	case s.User == "" || s.Runtime == api.Container:
		return ""
	case isolation != nil && !isolation.Users:
		return fmt.Sprintf("user %s: this worker cannot run an instance as another user than its own: %s", s.User,
			isolation.Why)
	case !api.AllowsUser(allowed, s.User):
		return fmt.Sprintf("user %s: this worker does not run instances as that user; its operator can allow it "+
			"with --allow-host-user %s", s.User, s.User)
	}
	return ""
}

// Chown gives a directory and all in it to a user. The directory itself comes last: if it has the
// owner, all of it has. nil is root.
func Chown(dir string, u *runtime.User) error {
	uid, gid := 0, 0
	if u != nil {
		uid, gid = int(u.UID), int(u.GID)
	}
	if ownedBy(dir, uid, gid) {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing is written through it
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		return root.Lchown(name, uid, gid)
	})
	if err == nil {
		err = root.Chown(".", uid, gid)
	}
	if err != nil {
		return fmt.Errorf("give %s to user %d: %w", dir, uid, err)
	}
	return nil
}

func ownedBy(path string, uid, gid int) bool {
	st, err := os.Lstat(path)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == uid && int(sys.Gid) == gid
}
