// Package eventstream answers watches with server-sent events: how everything of some lists is,
// and every change from then on, of what the caller may see.
package eventstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/watch"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of watches.
const (
	maxWatches = 64
	// maxOwnWatches of one person who is no administrator, so that nobody can keep
	// all others from watching.
	maxOwnWatches = maxWatches / 4
	// maxWatchTime ends a watch, so that its caller is looked at again.
	maxWatchTime = time.Hour
	// watchJoin bounds the first lists.
	watchJoin = 20 * time.Second
	// watchChunk is how much is written at a time, within Options.Timeout.
	watchChunk   = 64 << 10
	watchBatch   = 256 // changes at a time
	workersEvery = 5 * time.Second
	// maxWait for the next events.
	maxWait = 30 * time.Second
)

// Lists are those that can be watched.
type Lists struct {
	Applications func(ctx context.Context) ([]apiv1.AppView, error)
	Instances    func(ctx context.Context) ([]apiv1.InstanceView, error)
	Clusters     func(ctx context.Context) ([]apiv1.ClusterView, error)
	Workers      func(ctx context.Context) ([]rpc.WorkerView, error)
	Namespaces   func(ctx context.Context) ([]apiv1.NamespaceView, error)
	Events       func(ctx context.Context, after uint64, wait time.Duration) (apiv1.EventPage, error)
	// Changed returns what is closed when the lists may have changed.
	Changed func() <-chan struct{}
}

// Options of Streams.
type Options struct {
	Lists Lists
	Site  rest.Site
	// Draining is closed when the server begins to end.
	Draining <-chan struct{}
	// Timeout to read a piece of what a watch tells.
	Timeout time.Duration
	Log     *slog.Logger
}

// Streams are all watches of a server.
type Streams struct {
	o        Options
	hub      *watch.Hub
	watchers watchers
}

// watched is the value of an item of the lists that are watched.
type watched struct {
	see func(who access.Who) bool
	// encode writes the view as it is at a time: its age grows.
	encode func(now time.Time) ([]byte, error)
}

// New begins to watch nothing until somebody does.
func New(o Options) *Streams {
	s := &Streams{o: o}
	ofEvent := func(v apiv1.EventPage) []watch.Item {
		items := make([]watch.Item, len(v.Events))
		for i, e := range v.Events {
			items[i] = watch.Item{Key: strconv.FormatUint(e.Seq, 10), Value: watched{
				see:    func(who access.Who) bool { return o.Site.SeesEvent(who, e) },
				encode: func(time.Time) ([]byte, error) { return json.Marshal(e) },
			}}
		}
		return items
	}
	workers := watchedList(s, "workers", o.Lists.Workers,
		func(v rpc.WorkerView) string { return v.Cluster + "/" + v.Name }, rest.OfWorker,
		func(v *rpc.WorkerView) *float64 { return &v.AgeSeconds })
	if o.Site.Name == "" { // a root must ask its clusters, and hears of no change
		workers.Every, workers.Poll = workersEvery, true
	}
	s.hub = watch.NewHub(watch.Options{Max: maxWatches, Changed: o.Lists.Changed, Log: o.Log, Sources: []watch.Source{
		watchedList(s, "applications", o.Lists.Applications, func(v apiv1.AppView) string { return v.Name }, rest.OfApp,
			nil),
		watchedList(s, "instances", o.Lists.Instances, func(v apiv1.InstanceView) string { return v.ID },
			rest.OfInstance,
			func(v *apiv1.InstanceView) *float64 { return &v.AgeSeconds }),
		watchedList(s, "clusters", o.Lists.Clusters, func(v apiv1.ClusterView) string { return v.Name }, rest.OfCluster,
			func(v *apiv1.ClusterView) *float64 { return &v.AgeSeconds }),
		workers,
		watchedList(s, "namespaces", o.Lists.Namespaces, func(v apiv1.NamespaceView) string { return v.Name },
			rest.OfNamespace, nil),
		{
			Kind: "events",
			List: func(ctx context.Context) (out []watch.Item, err error) {
				for after := uint64(0); ; {
					page, err := o.Lists.Events(asRole(ctx), after, 0)
					if err != nil || len(page.Events) == 0 {
						return out, err
					}
					out, after = append(out, ofEvent(page)...), page.After
				}
			},
			Next: func(ctx context.Context, last watch.Item) ([]watch.Item, error) {
				after, _ := strconv.ParseUint(last.Key, 10, 64) // "" is from the first
				page, err := o.Lists.Events(asRole(ctx), after, maxWait)
				return ofEvent(page), err
			},
		},
	}})
	return s
}

// Kinds are those that can be watched.
func (s *Streams) Kinds() []string { return s.hub.Kinds() }

// Close ends all watches.
func (s *Streams) Close() { s.hub.Close() }

// asRole is a context for what the role itself wants to see.
func asRole(ctx context.Context) context.Context { return access.With(ctx, access.Who{Admin: true}) }

// watchedList is a list of views. age points to what changes by the clock alone.
func watchedList[T any](s *Streams, kind string, list func(ctx context.Context) ([]T, error), key func(T) string,
	of func(T) access.Object, age func(*T) *float64) watch.Source {
	return watch.Source{Kind: kind, List: func(ctx context.Context) ([]watch.Item, error) {
		views, err := list(asRole(ctx))
		if err != nil {
			return nil, err
		}
		asOf := time.Now()
		out := make([]watch.Item, len(views))
		for i, v := range views {
			timeless := v
			if age != nil {
				*age(&timeless) = 0
			}
			data, err := json.Marshal(timeless)
			if err != nil {
				return nil, fmt.Errorf("encode %s %s: %w", kind, key(v), err)
			}
			sum := sha256.Sum256(data)
			object := s.o.Site.Here(of(v))
			out[i] = watch.Item{Key: key(v), Same: string(sum[:]), Value: watched{
				see: func(who access.Who) bool { return who.Admin || access.May(who, access.See, object) == nil },
				encode: func(now time.Time) ([]byte, error) {
					v := v
					if age != nil && *age(&v) >= 0 {
						*age(&v) += now.Sub(asOf).Seconds()
					}
					return json.Marshal(v)
				},
			}}
		}
		return out, nil
	}}
}

// ServeHTTP answers GET /v1/watch?kinds=instances,events with server-sent events.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st, err := s.join(r)
	if err != nil {
		rest.WriteProblem(w, rest.ProblemOf(err))
		return
	}
	defer st.end()
	st.to, st.control = w, http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", rest.WatchType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithTimeout(r.Context(), maxWatchTime)
	defer cancel()
	if err := st.run(ctx, st.from.Resume(st.place(r.Header.Get("Last-Event-ID")))); err != nil {
		s.o.Log.Debug("a watch has ended", "who", st.who.Name, "err", err)
	}
}

// stream is one watch that is being answered.
type stream struct {
	s       *Streams
	who     access.Who
	print   string // of who and what: a place in the log is good for the same alone
	from    *watch.Watch
	end     func()
	to      http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
}

func (s *Streams) join(r *http.Request) (*stream, error) {
	var kinds []string
	for _, k := range strings.Split(r.URL.Query().Get("kinds"), ",") {
		if !s.hub.Has(k) {
			return nil, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request",
				"write for example kinds=instances,events",
				"the request is not valid", "query.kinds: %.60q is none of %s", k, strings.Join(s.hub.Kinds(), ", "))
		}
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	who := access.From(r.Context())
	rights, err := json.Marshal(who)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join(kinds, ",") + string(rights)))
	leave, ok := s.watchers.enter(who)
	if !ok {
		return nil, wire.Problemf(http.StatusServiceUnavailable, rest.CodeTooManyWatches,
			"end some of your own, or ask without watching", "too many watch already",
			"%d are of %s, which is the most for one", maxOwnWatches, who.Name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), watchJoin)
	defer cancel()
	w, err := s.hub.Join(ctx, kinds)
	if err != nil {
		leave()
	}
	switch {
	case errors.Is(err, watch.ErrTooMany):
		return nil, wire.Problemf(http.StatusServiceUnavailable, rest.CodeTooManyWatches,
			"try again later, or ask without watching", "too many watch already", "%d do, which is the most",
			maxWatches)
	case err != nil:
		return nil, err
	}
	return &stream{s: s, who: who, print: hex.EncodeToString(sum[:6]), from: w, end: func() { leave(); w.Close() }}, nil
}

// watchers counts who watches, by name.
type watchers struct {
	mu sync.Mutex
	by map[string]int // guarded by mu
}

// enter counts one more of who, until leave is called. Administrators are not
// counted.
func (w *watchers) enter(who access.Who) (leave func(), ok bool) {
	if who.Admin {
		return func() {}, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[string]int{}
	}
	if w.by[who.Name] >= maxOwnWatches {
		return nil, false
	}
	w.by[who.Name]++
	return sync.OnceFunc(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.by[who.Name]--; w.by[who.Name] == 0 {
			delete(w.by, who.Name)
		}
	}), true
}

// id of the place that the stream is at, and back.
func (st *stream) id() string { return st.print + "." + st.from.Place() }

func (st *stream) place(id string) string {
	rest, _ := strings.CutPrefix(id, st.print+".")
	return rest
}

// run writes until ctx ends or the server does. A client that does not read is an
// error.
func (st *stream) run(ctx context.Context, resumed bool) error {
	timer := time.NewTimer(rest.WatchKeepAlive)
	defer timer.Stop()
	began := false
	for {
		if !resumed {
			if err := st.everything(); err != nil {
				return err
			}
		} else if !began {
			st.event(apiv1.WatchEvent{Type: apiv1.WatchBegin})
			st.event(apiv1.WatchEvent{Type: apiv1.WatchSynced})
		}
		began, resumed = true, true
		for resumed {
			changes, more, lost := st.from.Next(watchBatch)
			for _, c := range changes {
				if err := st.change(c); err != nil {
					return err
				}
			}
			if err := st.flush(); err != nil {
				return err
			}
			if lost {
				resumed = false
				break
			}
			if len(changes) > 0 {
				continue
			}
			timer.Reset(rest.WatchKeepAlive)
			select {
			case <-more:
			case <-timer.C:
				st.buf.WriteString(":\n\n")
			case <-st.s.o.Draining:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// everything writes how all is now.
func (st *stream) everything() error {
	// The place of before means nothing any more.
	st.buf.WriteString("id\n")
	st.event(apiv1.WatchEvent{Type: apiv1.WatchBegin, Full: true})
	state, now := st.from.State(), time.Now()
	for _, kind := range st.from.Kinds() {
		for _, item := range state[kind] {
			v, ok := item.Value.(watched)
			if !ok || !v.see(st.who) {
				continue
			}
			if err := st.object(apiv1.WatchPut, kind, item.Key, v, now); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(&st.buf, "id: %s\n", st.id())
	st.event(apiv1.WatchEvent{Type: apiv1.WatchSynced})
	return st.flush()
}

// change writes one change, if it may be seen. What goes out of sight is gone.
func (st *stream) change(c watch.Change) error {
	if !st.from.Wants(c.Kind) {
		return nil
	}
	v, ok := c.Value.(watched)
	if !ok {
		return nil
	}
	what := apiv1.WatchPut
	if c.Gone {
		what = apiv1.WatchGone
	}
	if !v.see(st.who) {
		before, ok := c.Before.Value.(watched)
		if !ok || !before.see(st.who) {
			return nil
		}
		what, v = apiv1.WatchGone, before
	}
	fmt.Fprintf(&st.buf, "id: %s\n", st.print+"."+st.from.PlaceOf(c))
	return st.object(what, c.Kind, c.Key, v, time.Now())
}

func (st *stream) object(what, kind, key string, v watched, now time.Time) error {
	data, err := v.encode(now)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", kind, key, err)
	}
	st.event(apiv1.WatchEvent{Type: what, Kind: kind, Key: key, Object: data})
	if st.buf.Len() < watchChunk {
		return nil
	}
	return st.flush()
}

func (st *stream) event(e apiv1.WatchEvent) {
	data, err := json.Marshal(e)
	if err != nil { // its object was made by json itself
		data = []byte("{}")
	}
	fmt.Fprintf(&st.buf, "event: %s\ndata: %s\n\n", e.Type, data)
}

// flush sends what was written. Each time the client has the same time to
// take it.
func (st *stream) flush() error {
	if st.buf.Len() == 0 {
		return nil
	}
	if err := st.control.SetWriteDeadline(time.Now().Add(st.s.o.Timeout)); err != nil {
		return err
	}
	_, err := st.to.Write(st.buf.Bytes())
	st.buf.Reset()
	if st.buf.Cap() > 4*watchChunk {
		st.buf = bytes.Buffer{}
	}
	if err != nil {
		return err
	}
	return st.control.Flush()
}

// Watching is how many watch now.
func (s *Streams) Watching() int { return s.hub.Watching() }
