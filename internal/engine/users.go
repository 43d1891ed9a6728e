package engine

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
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container"
	"github.com/verge-edge/verge/internal/runtime/process"
	"github.com/verge-edge/verge/internal/wire"
)

// Users of instances are of this range, which systemd keeps free of its own dynamic
// users and of those of containers ("Users, Groups, UIDs and GIDs on systemd Systems").
const (
	firstUser = 1_900_000_000
	numUsers  = 1 << 18
)

// claimsDir is where the engines of a machine say which users their instances have: a
// file for each, with the directory of the instance. It is empty after a boot; an engine
// claims again what its records say.
const claimsDir = "/run/verge/users"

// users gives each instance that runs as a process a user that no other instance of the
// machine has, for as long as the instance is here.
type users struct {
	claims string // directory
	dir    string // of the engine's instances
	size   uint32 // of the range

	mu   sync.Mutex // guards below
	held map[wire.InstanceID]uint32
	// older run as root, since an engine started them that gave them no users.
	older map[wire.InstanceID]bool
}

func newUsers(claims, dir string) *users {
	return &users{claims: claims, dir: dir, size: numUsers, held: map[wire.InstanceID]uint32{}, older: map[wire.InstanceID]bool{}}
}

// give returns the user of an instance: had, if that is its own, else a free one. 0 is
// none had.
func (u *users) give(id wire.InstanceID, had uint32) (uint32, error) {
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
	if had >= firstUser && had-firstUser < u.size {
		first = had - firstUser
	}
	for i := range u.size {
		uid := firstUser + (first+i)%u.size
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

// release frees the user of an instance that has nothing on the disk any more.
func (u *users) release(id wire.InstanceID) error {
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

// note says whether an instance runs as root although nothing allows it that, and returns
// what is to be said of all that do, "" if none does.
func (u *users) note(id wire.InstanceID, asRoot bool) string {
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
	return fmt.Sprintf("still as root until their next start, since an earlier version started them: %s; then each runs as a user of its own without "+
		"capabilities, and sees a /tmp of its own and nothing of the worker; what needs root says user: root, which has to be allowed by "+
		"verge namespace standing NAMESPACE allow=host-root and by the worker's --allow-host-user root", list)
}

// claim writes down that a user is that of an instance; false if it is another's.
func (u *users) claim(uid uint32, id wire.InstanceID) (bool, error) {
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
func (u *users) lock() (unlock func(), err error) {
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

func (u *users) place(id wire.InstanceID) string { return filepath.Join(u.dir, id) }

func (u *users) file(uid uint32) string {
	return filepath.Join(u.claims, strconv.FormatUint(uint64(uid), 10))
}

// isolating is a driver that can run what it starts as users of their own.
type isolating interface {
	// CannotIsolate says why it can not, "" if it can.
	CannotIsolate() string
}

// openUsers finds out whether instances can have users of their own here, and says so.
func (e *Engine) openUsers(k *kit) {
	why := "its runtime cannot run an instance as another user"
	if d, ok := k.drivers[process.Name].(isolating); ok {
		why = d.CannotIsolate()
	}
	if why == "" {
		k.users = newUsers(claimsDir, filepath.Join(k.dir, state.InstancesDir))
	}
	e.board.SetInfo(func(i *wire.EngineInfo) {
		i.Isolation = &wire.Isolation{Users: why == "", Why: why, HostUsers: k.config.HostUsers}
	})
}

// userOf is who an order runs as; nil is the user of this engine.
func (in *instance) userOf(o *wire.Order) (*runtime.User, error) {
	if in.kit.users == nil || state.Sandboxed(o) {
		return nil, nil //nolint:nilnil // see above
	}
	u := &runtime.User{}
	if o.Spec.User == "" {
		uid, err := in.kit.users.give(in.id, in.rec.User)
		if err != nil {
			return nil, err
		}
		in.rec.User = uid
		u.UID, u.GID = uid, uid
	} else {
		var err error
		if u, err = machineUser(o.Spec.User); err != nil || u == nil {
			return nil, err
		}
	}
	u.LowPorts = in.netns == "" && slices.ContainsFunc(o.Spec.Ports, func(p api.Port) bool { return p.Number > 0 && p.Number < 1024 })
	return u, nil
}

// noteUser keeps the report up to date of what runs as root that should not.
func (in *instance) noteUser() {
	if in.kit.users == nil {
		return
	}
	o := &in.rec.Order
	asRoot := in.task != nil && o.Spec != nil && !state.Sandboxed(o) && in.task.Handle().User == nil && !api.IsRoot(o.Spec.User)
	in.kit.problems.Tell("users of instances", in.kit.users.note(in.id, asRoot))
}

// machineUser finds a user of this machine by NAME or UID, with :GROUP or without; nil is
// root.
func machineUser(text string) (*runtime.User, error) {
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

// view is what the process of an order sees of the machine: nothing of the worker's
// directory but what is the instance's own.
func (in *instance) view(o *wire.Order, volumes []string) runtime.View {
	v := runtime.View{
		Hide:     append([]string{in.kit.dir, filepath.Dir(claimsDir), filepath.Dir(container.DefaultAddress)}, in.kit.hide...),
		Show:     append([]string{in.place.Dir}, volumes...),
		Programs: filepath.SplitList(in.kit.config.Path),
		Tmp:      in.place.Tmp(),
		Devices:  pathsOf(nodesOf(o, in.kit.devices())),
	}
	if own := in.kit.config.Containerd; own != "" {
		v.Hide = append(v.Hide, own)
	}
	return v
}

// unfitUser says why this worker does not run an order as the user that it names, "" if
// it does.
func unfitUser(s *api.Service, allowed []string, isolation *wire.Isolation) string {
	switch {
	case s.User == "" || s.Runtime == api.Container:
		return ""
	case isolation != nil && !isolation.Users:
		return fmt.Sprintf("user %s: this worker cannot run an instance as another user than its own: %s", s.User, isolation.Why)
	case !api.AllowsUser(allowed, s.User):
		return fmt.Sprintf("user %s: this worker does not run instances as that user; its operator can allow it with --allow-host-user %s", s.User, s.User)
	}
	return ""
}

// own gives a directory, with all that is in it, to a user. The directory itself is the
// last: where it is the user's, all of it is. nil is root.
func own(dir string, u *runtime.User) error {
	uid, gid := 0, 0
	if u != nil {
		uid, gid = int(u.UID), int(u.GID)
	}
	if ownedBy(dir, uid) {
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

func ownedBy(path string, uid int) bool {
	st, err := os.Lstat(path)
	if err != nil {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == uid
}
