package container

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
)

// shareMost is how many containers are under one shim. With it a container costs a
// tenth of the memory of a shim of its own; without a bound, who kills a shim would end
// all containers of a worker, because containerd ends what has lost its shim.
const shareMost = 10

// labelShim is how runc's shim is told whose shim a container is to be under.
const labelShim = "io.containerd.runc.v2.group"

type shim struct {
	app   string // whose containers they are
	users int
	ended bool // nobody else is to come under it
}

// join gives a container of an instance a shim: that of others of its application if
// there is one with room, else another.
func (d *Driver) join(id wire.InstanceID) string {
	app, _, _ := strings.Cut(id, ".")
	d.mu.Lock()
	defer d.mu.Unlock()
	best := ""
	for name, s := range d.shims {
		if s.app == app && !s.ended && s.users < shareMost && (best == "" || s.users > d.shims[best].users || s.users == d.shims[best].users && name < best) {
			best = name
		}
	}
	if best == "" {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil { // it never fails
			return ""
		}
		best = "verge-" + hex.EncodeToString(b[:])
		d.shims[best] = &shim{app: app}
	}
	d.shims[best].users++
	return best
}

// joined notes a container that is under a shim already.
func (d *Driver) joined(id wire.InstanceID, name string) {
	if name == "" {
		return
	}
	app, _, _ := strings.Cut(id, ".")
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shims[name] == nil {
		d.shims[name] = &shim{app: app}
	}
	d.shims[name].users++
}

// part notes that a container has ended, before its shim is told: that may end then, and
// nobody else is to come under it.
func (d *Driver) part(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.shims[name]; s != nil {
		if s.users--; s.users == 0 {
			delete(d.shims, name)
		}
	}
}

// abandon lets nobody come under a shim that has ended.
func (d *Driver) abandon(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.shims[name]; s != nil {
		s.ended = true
	}
}

// errShimEnded is wrapped where a container may be started under another shim.
var errShimEnded = errors.New("its shim has just ended")

// startTries are made where shims end while something is to be started under them.
const startTries = 3

// shimEnded says whether a container could not be started because the shim that it was
// to be under had just ended.
func shimEnded(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "start shim") || strings.Contains(err.Error(), "ttrpc: closed")) &&
		(strings.Contains(err.Error(), "connect: ") || strings.Contains(err.Error(), "closed"))
}
