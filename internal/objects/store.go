package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of objects in a tier's store, + namespace/name: record.Object.
const (
	keyObject = "object/"
	keyCopy   = "objectcopy/"
)

// Options of a Store.
type Options struct {
	Store bus.Store
	Blobs bus.Blobs
	// Site is the cluster whose store it is, "" the root's.
	Site string
	// Above is asked for what is not here; nil: nobody.
	Above Above
	// Quota is how many bytes of objects a namespace may own at this tier, 0 for no bound; nil:
	// no quotas. It may take locks, and must not call the Store.
	Quota func(namespace string) int64
	// Restored is a folder with contents of what was restored, called by their digests:
	// they are taken over, and the folder is removed. It need not be there.
	Restored string
	// CopyBytes bounds all copies; 0 is wire.MaxObjectCopy.
	CopyBytes int64
	// Fresh is for how long a copy is given out before Above is asked whether it is
	// still so; 0 is 2 s.
	Fresh time.Duration
	Log   *slog.Logger
}

// Above is the tier that owns what is not here.
type Above interface {
	// Get asks for an object. Where it has the digest have there is no body to read,
	// and Same is true. A *wire.Problem is its answer; with status 0, or any other
	// error, it could not be asked.
	Get(ctx context.Context, namespace, name, have string) (Got, error)
}

// Got is an object of the tier above.
type Got struct {
	Same bool
	View apiv1.ObjectView
	// Body is to be closed; nil where Same.
	Body io.ReadCloser
}

// Counts since the store was opened.
type Counts struct {
	Puts, Gets, Fetched, Stale, Evicted, Damaged atomic.Uint64
}

// Store is the object store of a root or a cluster. Its methods may be called
// concurrently.
type Store struct {
	o      Options
	origin string
	Counts Counts

	asking Once // of the tier above

	// writing is held from the last check of the present state to the commit.
	writing sync.Mutex

	mu sync.Mutex // guards below
	// asked is when Above confirmed a copy last, used when it was read.
	asked, used map[string]time.Time
	// coming are the bytes of uploads that are under way, by namespace.
	coming map[string]int64
	marks  marks
}

// Open returns the store of a tier, and removes what broken uploads have left.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.CopyBytes = cmp.Or(o.CopyBytes, wire.MaxObjectCopy)
	o.Fresh = cmp.Or(o.Fresh, 2*time.Second)
	s := &Store{
		o: o, origin: cmp.Or(o.Site, wire.OriginRoot),
		asked: map[string]time.Time{}, used: map[string]time.Time{},
		coming: map[string]int64{}, marks: newMarks(),
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
		s.o.Log = o.Log
	}
	there, err := o.Blobs.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the object store: %w", err)
	}
	if len(there) == 0 {
		return s, s.restore(ctx, nil)
	}
	named, whole := map[string]bool{}, true
	for _, prefix := range []string{keyObject, keyCopy} {
		all, lost, err := s.records(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("open the object store: %w", err)
		}
		for _, u := range lost {
			o.Log.Error(u.problem())
			whole = whole && prefix != keyObject
		}
		for i := range all {
			named[all[i].Blob] = true
			s.noted(prefix, &all[i])
		}
	}
	kept := map[string]bool{}
	for _, id := range there {
		kept[id] = true
		// Where a record cannot be read nobody knows which of them it names.
		if !named[id] && whole {
			if err := o.Blobs.Remove(ctx, id); err != nil {
				return nil, fmt.Errorf("open the object store: remove what a broken upload has left: %w", err)
			}
		}
	}
	return s, s.restore(ctx, kept)
}

// Close ends what is being fetched, and waits for that.
func (s *Store) Close() { s.asking.Close() }

// unread is a record of an object that cannot be read.
type unread struct {
	key string
	err error
}

// problem says what it is, and what to do.
func (u *unread) problem() string {
	namespace, name := u.object()
	if strings.HasPrefix(u.key, keyCopy) {
		return fmt.Sprintf("stored record %s cannot be read (%.200v): the copy is fetched again when somebody "+
			"asks for it", u.key, u.err)
	}
	return fmt.Sprintf("stored record %s cannot be read (%.200v): the object is lost to its readers, all others are "+
		"not. To mend it, put it again (verge object put %s FILE --namespace %s), "+
		"remove it (verge object rm %s --namespace %s), or restore a backup of before: verge restore", u.key, u.err,
		name, namespace, name, namespace)
}

// object is what its key says of it.
func (u *unread) object() (namespace, name string) {
	_, rest, _ := strings.Cut(u.key, "/")
	namespace, name, _ = strings.Cut(rest, "/")
	return namespace, name
}

// Error implements error.
func (u *unread) Error() string { return u.problem() }

// Unwrap gives the problem that others see.
func (u *unread) Unwrap() []error {
	namespace, name := u.object()
	return []error{wire.Problemf(http.StatusInternalServerError, "record-unreadable",
		"put it again: verge object put "+name+" FILE --namespace "+namespace,
		"what is stored about the object cannot be read", "record %s: %.200v", u.key, u.err), u.err}
}

// records are those below a prefix, by key, and those of them that cannot be read.
func (s *Store) records(ctx context.Context, prefix string) (out []record.Object, lost []*unread, err error) {
	entries, err := s.o.Store.List(ctx, prefix)
	if err != nil {
		return nil, nil, err
	}
	out = make([]record.Object, 0, len(entries))
	for _, e := range entries {
		var r record.Object
		if err := records.Load(e, &r); err != nil {
			lost = append(lost, &unread{e.Key, err})
			continue
		}
		out = append(out, r)
	}
	return out, lost, nil
}

// record of one object; false if there is none, or if it is a copy with an unreadable record,
// which is fetched again.
func (s *Store) record(ctx context.Context, prefix, namespace, name string) (record.Object, bool, error) {
	e, err := s.o.Store.Get(ctx, prefix+namespace+"/"+name)
	if errors.Is(err, bus.ErrNotFound) {
		return record.Object{}, false, nil
	}
	if err != nil {
		return record.Object{}, false, err
	}
	var r record.Object
	switch err := records.Load(e, &r); {
	case err == nil:
		return r, true, nil
	case prefix == keyCopy:
		return record.Object{}, false, nil
	default:
		return record.Object{}, false, &unread{e.Key, err}
	}
}

// Upload is what is to be put.
type Upload struct {
	Namespace, Name string
	// Type is its media type, By who puts it.
	Type, By string
	// Size is the announced size, -1 if unknown; Digest is the required one, "" any.
	Size   int64
	Digest string
	Body   io.Reader
}

// Put stores an object under its name, in place of what had it before. It is
// durable when Put returns nil, and otherwise nothing has changed.
func (s *Store) Put(ctx context.Context, u Upload) (apiv1.ObjectView, error) {
	if err := wire.CheckObjectName(u.Name); err != nil {
		return apiv1.ObjectView{}, err
	}
	room, err := s.room(ctx, u.Namespace, u.Name)
	if err != nil {
		return apiv1.ObjectView{}, err
	}
	if err := room.refuses(u.Size); err != nil {
		return apiv1.ObjectView{}, err
	}
	body := &arriving{s: s, room: room, r: u.Body}
	defer body.end()
	blob, err := s.o.Blobs.Write(ctx, body, room.limit)
	if err != nil {
		return apiv1.ObjectView{}, room.unwritten(err)
	}
	v, err := s.name(ctx, u, blob)
	if err != nil && !errors.Is(err, bus.ErrUnknownOutcome) {
		// Where the outcome is unknown the next start finds out whether it has a name.
		s.drop(ctx, blob.ID)
	}
	if err == nil {
		s.Counts.Puts.Add(1)
	}
	return v, err
}

// name commits an object whose bytes are there.
func (s *Store) name(ctx context.Context, u Upload, blob bus.Blob) (apiv1.ObjectView, error) {
	switch {
	case u.Digest != "" && u.Digest != blob.Digest:
		return apiv1.ObjectView{}, wire.Problemf(http.StatusUnprocessableEntity, "other-content", "put it again",
			"what arrived is not what was sent",
			"%s has the digest sha256:%s, and was to have sha256:%s", u.Name, blob.Digest, u.Digest)
	case u.Size >= 0 && u.Size != blob.Size:
		return apiv1.ObjectView{},
			wire.Problemf(http.StatusBadRequest, "other-content", "put it again", "what arrived is not what was sent",
				"%s has %d bytes, and was to have %d", u.Name, blob.Size, u.Size)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	room, err := s.room(ctx, u.Namespace, u.Name)
	if err == nil {
		err = room.refuses(blob.Size)
	}
	if err != nil {
		return apiv1.ObjectView{}, err
	}
	old, had, err := s.record(ctx, keyObject, u.Namespace, u.Name)
	var damaged *unread
	if errors.As(err, &damaged) && !records.Newer(damaged.err) {
		had, err = false, nil // its content goes with the next start
	}
	if err != nil {
		return apiv1.ObjectView{}, unstored(err)
	}
	r := record.Object{
		V: wire.Version, Namespace: u.Namespace, Name: u.Name, Blob: blob.ID, Size: blob.Size, Digest: blob.Digest,
		Type: wire.ObjectType(u.Type), Updated: time.Now().UTC(), By: u.By,
	}
	if err := s.commit(ctx, keyObject, &r); err != nil {
		return apiv1.ObjectView{}, err
	}
	if had {
		s.drop(ctx, old.Blob)
	}
	return s.view(&r, s.origin), nil
}

func (s *Store) commit(ctx context.Context, prefix string, r *record.Object) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of an object: %w", err)
	}
	if _, err := s.o.Store.Put(ctx, prefix+r.Namespace+"/"+r.Name, data); err != nil {
		return unstored(err)
	}
	s.noted(prefix, r)
	return nil
}

// drop returns the room of a blob that no name refers to. What cannot be removed now is removed
// at the next start.
func (s *Store) drop(ctx context.Context, id string) {
	if err := s.o.Blobs.Remove(context.WithoutCancel(ctx), id); err != nil {
		s.o.Log.Warn("the room of an object is given back with the next start", "error", err)
	}
}

func unstored(err error) error {
	p := records.Unstored(err, "look (verge object ls) before you try again", "the disk of this role")
	if errors.Is(err, bus.ErrUnknownOutcome) {
		return fmt.Errorf("%w: %w", p, err) // the bytes of such an object stay
	}
	return p
}

func (s *Store) view(r *record.Object, origin string) apiv1.ObjectView {
	return apiv1.ObjectView{
		Namespace: r.Namespace, Name: r.Name, Size: r.Size, Digest: "sha256:" + r.Digest, Type: r.Type,
		Updated: r.Updated, By: r.By,
		Origin: origin, Copy: origin != s.origin,
	}
}

// Remove removes an object that this tier owns, or the copy that it has.
func (s *Store) Remove(ctx context.Context, namespace, name string) (apiv1.ObjectView, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, of := range s.kinds() {
		r, had, err := s.record(ctx, of.prefix, namespace, name)
		var damaged *unread
		switch {
		case errors.As(err, &damaged): // its content goes with the next start
			if _, err := s.o.Store.Delete(ctx, damaged.key); err != nil {
				return apiv1.ObjectView{}, unstored(err)
			}
			s.gone(of.prefix, &record.Object{Namespace: namespace, Name: name})
			return apiv1.ObjectView{Namespace: namespace, Name: name, Origin: of.origin}, nil
		case err != nil:
			return apiv1.ObjectView{}, unstored(err)
		case !had:
			continue
		}
		if err := s.forget(ctx, of.prefix, &r); err != nil {
			return apiv1.ObjectView{}, err
		}
		return s.view(&r, of.origin), nil
	}
	return apiv1.ObjectView{}, wire.NoObject(namespace, name)
}

// kind of what is on a store.
type kind struct{ prefix, origin string }

// kinds in the order in which a name stands for them: what the tier owns goes before
// the copy of what its root owns.
func (s *Store) kinds() []kind {
	return []kind{{keyObject, s.origin}, {keyCopy, wire.OriginRoot}}
}

// forget removes a record and what it stands for; writing is held.
func (s *Store) forget(ctx context.Context, prefix string, r *record.Object) error {
	if _, err := s.o.Store.Delete(ctx, prefix+r.Namespace+"/"+r.Name); err != nil {
		return unstored(err)
	}
	s.gone(prefix, r)
	s.drop(ctx, r.Blob)
	return nil
}

// List returns what is here of a namespace, of all where it is "", by namespace and
// name; what this tier owns before the copy of the same name. Of what cannot be read it has
// the names, and why.
func (s *Store) List(ctx context.Context, namespace string) ([]apiv1.ObjectView, error) {
	out := []apiv1.ObjectView{}
	for _, of := range s.kinds() {
		prefix := of.prefix
		if namespace != "" {
			prefix += namespace + "/"
		}
		all, lost, err := s.records(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("list objects: %w", err)
		}
		for i := range all {
			out = append(out, s.view(&all[i], of.origin))
		}
		for _, u := range lost {
			v := apiv1.ObjectView{Origin: of.origin, Copy: of.origin != s.origin, Problem: u.problem()}
			v.Namespace, v.Name = u.object()
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b apiv1.ObjectView) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

// Used is what the objects of each namespace have that this tier owns, in bytes, without
// those whose size cannot be read.
func (s *Store) Used(ctx context.Context) (map[string]int64, error) {
	all, _, err := s.records(ctx, keyObject)
	if err != nil {
		return nil, fmt.Errorf("list objects: %w", err)
	}
	used := map[string]int64{}
	for i := range all {
		used[all[i].Namespace] += all[i].Size
	}
	return used, nil
}

// Usage is what a store holds.
type Usage struct{ Objects, Copies, ObjectBytes, CopyBytes int64 }

// Usage of the store.
func (s *Store) Usage(ctx context.Context) (u Usage, err error) {
	all, err := s.List(ctx, "")
	for i := range all {
		if all[i].Copy {
			u.Copies, u.CopyBytes = u.Copies+1, u.CopyBytes+all[i].Size
		} else {
			u.Objects, u.ObjectBytes = u.Objects+1, u.ObjectBytes+all[i].Size
		}
	}
	return u, err
}

// Holds says whether this tier owns objects of a namespace.
func (s *Store) Holds(ctx context.Context, namespace string) bool {
	all, err := s.o.Store.List(ctx, keyObject+namespace+"/")
	return err != nil || len(all) > 0
}
