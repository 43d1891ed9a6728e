package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Get returns an object and a reader of it, which is to be closed. What is not here
// is asked of the tier above, and kept as a copy.
func (s *Store) Get(ctx context.Context, namespace, name string) (apiv1.ObjectView, bus.BlobReader, error) {
	if err := wire.CheckObjectName(name); err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	s.Counts.Gets.Add(1)
	// What a reader was about to open may be replaced or dropped just then.
	for try := 0; ; try++ {
		v, r, err := s.get(ctx, namespace, name)
		if !errors.Is(err, bus.ErrNotFound) || try >= 3 {
			return v, r, s.unreadable(namespace, name, err)
		}
	}
}

func (s *Store) unreadable(namespace, name string, err error) error {
	if !errors.Is(err, bus.ErrNotFound) && !errors.Is(err, bus.ErrDamaged) {
		return err
	}
	s.Counts.Damaged.Add(1)
	return wire.Problemf(http.StatusInternalServerError, "object-lost",
		"put it again: verge object put "+name+" FILE --namespace "+namespace,
		"the content of the object is lost",
		"%s of namespace %s: the disk has lost it, or this role was restored from a backup, which has the names of "+
			"objects only (%v)", name, namespace, err)
}

func (s *Store) get(ctx context.Context, namespace, name string) (apiv1.ObjectView, bus.BlobReader, error) {
	own, had, err := s.record(ctx, keyObject, namespace, name)
	if err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	if had {
		r, err := s.o.Blobs.Open(ctx, blobOf(&own))
		return s.view(&own, s.origin), r, err
	}
	if s.o.Above == nil {
		return apiv1.ObjectView{}, nil, wire.NoObject(namespace, name)
	}
	stale, err := s.refresh(ctx, namespace, name)
	if err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	copied, had, err := s.record(ctx, keyCopy, namespace, name)
	if err != nil {
		return apiv1.ObjectView{}, nil, err
	}
	if !had {
		return apiv1.ObjectView{}, nil, wire.NoObject(namespace, name)
	}
	r, err := s.o.Blobs.Open(ctx, blobOf(&copied))
	if errors.Is(err, bus.ErrNotFound) {
		s.Counts.Damaged.Add(1)
		s.lose(ctx, &copied)
		return apiv1.ObjectView{}, nil, err
	}
	s.mu.Lock()
	s.used[copied.Namespace+"/"+copied.Name] = time.Now()
	s.mu.Unlock()
	v := s.view(&copied, wire.OriginRoot)
	v.Stale = stale
	return v, r, err
}

func blobOf(r *record.Object) bus.Blob {
	return bus.Blob{ID: r.Blob, Size: r.Size, Digest: r.Digest}
}

// lose forgets a copy whose bytes are gone, unless another is there already.
func (s *Store) lose(ctx context.Context, r *record.Object) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if now, had, err := s.record(ctx, keyCopy, r.Namespace, r.Name); err == nil && had && now.Blob == r.Blob {
		if err := s.forget(ctx, keyCopy, r); err != nil {
			s.o.Log.Warn("a copy that is lost cannot be forgotten", "object", r.Name, "error", err)
		}
	}
	s.mu.Lock()
	delete(s.asked, r.Namespace+"/"+r.Name)
	s.mu.Unlock()
}

// refresh makes sure that the copy of an object is current at the tier above, unless that was
// checked a moment ago. One request serves all callers; a caller may leave.
func (s *Store) refresh(ctx context.Context, namespace, name string) (stale bool, err error) {
	key := namespace + "/" + name
	if s.fresh(key) {
		return false, nil
	}
	stale, err = s.asking.Ask(ctx, key, func(ctx context.Context) (bool, error) {
		if s.fresh(key) { // somebody has asked just now
			return false, nil
		}
		stale, err := s.ask(ctx, namespace, name)
		if err == nil && !stale {
			s.confirmed(key)
		}
		return stale, err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("waiting for object %s: %w", name, err)
	}
	return stale, err
}

// fresh says whether a copy was confirmed a moment ago.
func (s *Store) fresh(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.asked[key]
	return ok && time.Since(at) < s.o.Fresh
}

// confirmed notes that a copy is what the tier above has.
func (s *Store) confirmed(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[key] = time.Now()
	if len(s.asked) > 2*wire.MaxObjects { // of many that are not there any more
		clear(s.asked)
	}
}

// ask asks the tier above, and stores what it says.
func (s *Store) ask(ctx context.Context, namespace, name string) (stale bool, err error) {
	have, had, err := s.record(ctx, keyCopy, namespace, name)
	if err != nil {
		return false, err
	}
	got, err := s.o.Above.Get(ctx, namespace, name, have.Digest)
	var p *wire.Problem
	switch {
	case err == nil && got.Same:
		return false, nil
	case err == nil:
		defer func() { _ = got.Body.Close() }() // it was read, or it is broken
		return false, s.keep(ctx, got, have, had)
	case errors.As(err, &p) && (p.Status == http.StatusNotFound || p.Status == http.StatusForbidden):
		if had {
			s.lose(ctx, &have)
		}
		return false, p
	case had:
		s.Counts.Stale.Add(1)
		return true, nil
	}
	return false, wire.Problemf(http.StatusServiceUnavailable, "root-away",
		"try again when the root can be reached; what is put at this cluster is here without it",
		"the object is not here, and the root cannot be asked", "%s of namespace %s: %v", name, namespace, err)
}

// keep stores a copy.
func (s *Store) keep(ctx context.Context, got Got, have record.Object, had bool) error {
	v := got.View
	if v.Size > s.o.CopyBytes {
		return (&room{name: v.Name, limit: s.o.CopyBytes}).refuses(v.Size)
	}
	blob, err := s.o.Blobs.Write(ctx, got.Body, v.Size)
	if err != nil {
		return (&room{name: v.Name, limit: v.Size}).unwritten(err)
	}
	r := record.Object{
		V: wire.Version, Namespace: v.Namespace, Name: v.Name, Blob: blob.ID, Size: blob.Size, Digest: blob.Digest,
		Type: wire.ObjectType(v.Type), Updated: v.Updated, By: v.By,
	}
	if blob.Size != v.Size || "sha256:"+blob.Digest != v.Digest {
		s.Counts.Damaged.Add(1)
		s.drop(ctx, blob.ID)
		return wire.Problemf(http.StatusBadGateway, "other-content",
			"try again; if it stays so, put it again at the root",
			"what arrived of the object is not what the root has",
			"%s: %d bytes with sha256:%s instead of %d with %s", v.Name, blob.Size, blob.Digest, v.Size, v.Digest)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.evict(ctx, r.Size, r.Namespace+"/"+r.Name); err != nil {
		s.drop(ctx, blob.ID)
		return err
	}
	if err := s.commit(ctx, keyCopy, &r); err != nil {
		if !errors.Is(err, bus.ErrUnknownOutcome) {
			s.drop(ctx, blob.ID)
		}
		return err
	}
	s.Counts.Fetched.Add(1)
	if had {
		s.drop(ctx, have.Blob)
	}
	return nil
}

// evict drops copies that were not read for longest until there is room for one
// more; writing is held.
func (s *Store) evict(ctx context.Context, size int64, but string) error {
	all, _, err := s.records(ctx, keyCopy)
	if err != nil {
		return unstored(err)
	}
	all = slices.DeleteFunc(all, func(r record.Object) bool { return r.Namespace+"/"+r.Name == but })
	var sum int64
	for i := range all {
		sum += all[i].Size
	}
	s.mu.Lock()
	slices.SortFunc(all, func(a, b record.Object) int {
		ka, kb := a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name
		if c := s.used[ka].Compare(s.used[kb]); c != 0 {
			return c
		}
		return strings.Compare(ka, kb)
	})
	s.mu.Unlock()
	for i := 0; i < len(all) && (sum+size > s.o.CopyBytes || len(all)-i >= wire.MaxObjects); i++ {
		if err := s.forget(ctx, keyCopy, &all[i]); err != nil {
			return err
		}
		sum -= all[i].Size
		s.Counts.Evicted.Add(1)
		s.mu.Lock()
		delete(s.used, all[i].Namespace+"/"+all[i].Name)
		delete(s.asked, all[i].Namespace+"/"+all[i].Name)
		s.mu.Unlock()
	}
	return nil
}
