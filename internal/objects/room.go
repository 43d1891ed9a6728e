package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// room is how large an object may be.
type room struct {
	namespace, name string
	limit           int64 // in bytes
	// quota of the namespace where that is the limit, else 0, and what its other objects
	// have.
	quota, others int64
}

// room is how large an object of that name may be. An object that is no larger than its
// predecessor is always within the quota, so that a namespace over its quota can shrink.
func (s *Store) room(ctx context.Context, namespace, name string) (room, error) {
	all, lost, err := s.records(ctx, keyObject+namespace+"/")
	if err != nil {
		return room{}, unstored(err)
	}
	r := room{namespace: namespace, name: name}
	n, before := len(lost), int64(0)
	for i := range all {
		if all[i].Name == name {
			before = all[i].Size
			continue
		}
		r.others += all[i].Size
		n++
	}
	left := int64(wire.MaxObjectsSize) - r.others
	if n >= wire.MaxObjects || left < 0 {
		return room{}, wire.Problemf(http.StatusConflict, "too-many",
			"remove what is not used: verge object rm NAME --namespace "+namespace, "there is no room for more objects",
			"namespace %s has %d of at most %d objects, and %d MiB of at most %d", namespace, n, wire.MaxObjects,
			r.others>>20, wire.MaxObjectsSize>>20)
	}
	r.limit = min(left, wire.MaxObjectBytes)
	if s.o.Quota == nil {
		return r, nil
	}
	if quota := s.o.Quota(namespace); quota > 0 {
		if most := max(0, quota-r.others, before); most < r.limit {
			r.limit, r.quota = most, quota
		}
	}
	return r, nil
}

// refuses says why an object of a size is too large; nil if it is not.
func (r *room) refuses(size int64) error {
	switch {
	case size <= r.limit:
		return nil
	case r.quota > 0:
		return r.overQuota(fmt.Sprintf("%s has %s", r.name, api.Bytes(size)))
	}
	return wire.Problemf(http.StatusRequestEntityTooLarge, "object-too-large",
		"put less, in several objects if need be; verge object ls -o wide lists them",
		"the object is too large", "%s: at most %d bytes here", r.name, r.limit)
}

func (r *room) overQuota(what string) *wire.Problem {
	return wire.Problemf(http.StatusForbidden, "over-quota",
		"remove what is not used (verge object ls -n "+r.namespace+
			"), or have the quota raised (verge namespace quota "+r.namespace+")",
		"nothing was stored: the quota of the namespace does not allow it",
		"namespace %s may have objects of %s, its others have %s: %s", r.namespace, api.Bytes(r.quota),
		api.Bytes(r.others), what)
}

// unwritten words why the content of an object was not stored.
func (r *room) unwritten(err error) error {
	var p *wire.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, bus.ErrTooLarge) && r.quota > 0:
		return r.overQuota(fmt.Sprintf("%s has more than %s", r.name, api.Bytes(r.limit)))
	case errors.Is(err, bus.ErrTooLarge):
		return r.refuses(r.limit + 1)
	case errors.Is(err, bus.ErrFull):
		return wire.Problemf(http.StatusInsufficientStorage, "disk-full",
			"make room on the disk of this role, or remove what is not used: verge object ls", "nothing was stored",
			"%v", err)
	}
	return fmt.Errorf("storing object %s: %w", r.name, err)
}

// arriving is the content of an upload. All that arrive for a namespace together must
// find room: else many at a time could fill the disk before the first of them is
// refused.
type arriving struct {
	s    *Store
	room room
	r    io.Reader
	n    int64
}

// Read implements io.Reader.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if a.s.arrived(a, int64(n)) {
		return n, err
	}
	if a.room.quota > 0 {
		p := a.room.overQuota(fmt.Sprintf("%s and what else is being put are more", a.room.name))
		p.Status = http.StatusConflict // it passes with the other uploads
		return n, p
	}
	return n, wire.Problemf(http.StatusConflict, "too-many", "try again when other uploads have ended",
		"there is no room for more objects",
		"namespace %s: %s and what else is being put are more than the %d MiB that it may have", a.room.namespace,
		a.room.name, wire.MaxObjectsSize>>20)
}

// arrived counts n bytes; false where that is too much with all others. The first upload
// alone is bounded by its own limit.
func (s *Store) arrived(a *arriving, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.n += n
	s.coming[a.room.namespace] += n
	all := s.coming[a.room.namespace]
	bound := int64(wire.MaxObjectsSize)
	if a.room.quota > 0 {
		bound = a.room.quota
	}
	return all == a.n || a.room.others+all <= bound
}

// end takes it out of what is coming.
func (a *arriving) end() {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.coming[a.room.namespace] -= a.n; a.s.coming[a.room.namespace] == 0 {
		delete(a.s.coming, a.room.namespace)
	}
}
