package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/watch"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of watches.
const (
	watchPath          = "/v1/watch"
	codeTooManyWatches = "too-many-watches"
	maxWatches         = 64
	// maxOwnWatches of one person who is no administrator, so that nobody can keep
	// all others from watching.
	maxOwnWatches = maxWatches / 4
	// keepAlive is the longest silence, so that either side notices a dead link.
	keepAlive = 15 * time.Second
	// maxWatchTime ends a watch, so that its caller is looked at again.
	maxWatchTime = time.Hour
	// watchJoin bounds the first lists.
	watchJoin = 20 * time.Second
	// watchChunk is how much is written at a time, within Patience.Watch.
	watchChunk   = 64 << 10
	watchBatch   = 256 // changes at a time
	workersEvery = 5 * time.Second
)

// watched is the value of an item of the lists that are watched.
type watched struct {
	see func(s *Server, who access.Who) bool
	// encode writes the view as it is at a time: its age grows.
	encode func(now time.Time) ([]byte, error)
}

// watches makes the hub of all lists that can be watched.
func (s *Server) watches() *watch.Hub {
	b := s.backend
	ofEvent := func(v wire.EventPage) []watch.Item {
		items := make([]watch.Item, len(v.Events))
		for i, e := range v.Events {
			items[i] = watch.Item{Key: strconv.FormatUint(e.Seq, 10), Value: watched{
				see:    func(s *Server, who access.Who) bool { return s.seesEvent(who, e) },
				encode: func(time.Time) ([]byte, error) { return json.Marshal(e) },
			}}
		}
		return items
	}
	workers := watchedList(s, "workers", b.Workers, func(v wire.WorkerView) string { return v.Cluster + "/" + v.Name }, ofWorker,
		func(v *wire.WorkerView) *float64 { return &v.AgeSeconds })
	if s.site == "" { // a root must ask its clusters, and hears of no change
		workers.Every, workers.Poll = workersEvery, true
	}
	return watch.NewHub(watch.Options{Max: maxWatches, Changed: b.Changes, Log: s.log, Sources: []watch.Source{
		watchedList(s, "applications", b.Applications, func(v wire.AppView) string { return v.Name }, ofApp, nil),
		watchedList(s, "instances", func(ctx context.Context) ([]wire.InstanceView, error) { return b.Instances(ctx, "", "") },
			func(v wire.InstanceView) string { return v.ID }, ofInstance, func(v *wire.InstanceView) *float64 { return &v.AgeSeconds }),
		watchedList(s, "clusters", b.Clusters, func(v wire.ClusterView) string { return v.Name }, ofCluster,
			func(v *wire.ClusterView) *float64 { return &v.AgeSeconds }),
		workers,
		watchedList(s, "namespaces", b.Namespaces, func(v wire.NamespaceView) string { return v.Name }, ofNamespace, nil),
		{
			Kind: "events",
			List: func(ctx context.Context) (out []watch.Item, err error) {
				for after := uint64(0); ; {
					page, err := b.Events(asRole(ctx), after, 0)
					if err != nil || len(page.Events) == 0 {
						return out, err
					}
					out, after = append(out, ofEvent(page)...), page.After
				}
			},
			Next: func(ctx context.Context, last watch.Item) ([]watch.Item, error) {
				after, _ := strconv.ParseUint(last.Key, 10, 64) // "" is from the first
				page, err := b.Events(asRole(ctx), after, maxWait)
				return ofEvent(page), err
			},
		},
	}})
}

// asRole is a context for what the role itself wants to see.
func asRole(ctx context.Context) context.Context { return access.With(ctx, access.Who{Admin: true}) }

// watchedList is a list of views. age points to what changes by the clock alone.
func watchedList[T any](s *Server, kind string, list func(ctx context.Context) ([]T, error), key func(T) string, of func(T) access.Object, age func(*T) *float64) watch.Source {
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
			object := s.here(of(v))
			out[i] = watch.Item{Key: key(v), Same: string(sum[:]), Value: watched{
				see: func(_ *Server, who access.Who) bool { return who.Admin || access.May(who, access.See, object) == nil },
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

// registerWatch adds the stream and describes it: it is no operation of the kind
// that one answer belongs to.
func (s *Server) registerWatch(api huma.API) {
	s.handle("GET "+watchPath, anyone, s.watch)
	var kinds []any
	for _, k := range s.hub.Kinds() {
		kinds = append(kinds, k)
	}
	api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: "watch", Method: http.MethodGet, Path: watchPath, Summary: "Be told how things are, and of every change",
		Description: "Server-sent events: begin, then put for everything there is, synced, and from then on put and gone for every change. " +
			"Whoever is back soon with the id of the last event (Last-Event-ID) goes on from there; begin says whether that was possible. " +
			"The data is JSON with kind, key and object, the same as in the lists. Shows what may be seen.",
		Parameters: []*huma.Param{
			{Name: "kinds", In: "query", Required: true, Explode: new(bool), Description: "what to watch, separated by commas",
				Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString, Enum: kinds}}},
			{Name: "Last-Event-ID", In: "header", Description: "id of the last event that was received", Schema: &huma.Schema{Type: huma.TypeString}},
		},
		Responses: map[string]*huma.Response{
			"200":     {Description: "events", Content: map[string]*huma.MediaType{streamType: {Schema: &huma.Schema{Type: huma.TypeString}}}},
			"default": {Description: "a problem", Content: map[string]*huma.MediaType{problemType: {Schema: api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[problemBody](), true, "")}}},
		},
		Extensions: map[string]any{"x-verge-needs": anyone.String()},
	})
}

// streamType is the media type of server-sent events.
const streamType = "text/event-stream"

// watch answers GET /v1/watch?kinds=instances,events with server-sent events.
func (s *Server) watch(w http.ResponseWriter, r *http.Request) {
	st, err := s.joinWatch(r)
	if err != nil {
		p := asProblem(err)
		writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
		return
	}
	defer st.end()
	st.to, st.control = w, http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", streamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithTimeout(r.Context(), maxWatchTime)
	defer cancel()
	if err := st.run(ctx, st.from.Resume(st.place(r.Header.Get("Last-Event-ID")))); err != nil {
		s.log.Debug("a watch has ended", "who", st.who.Name, "err", err)
	}
}

// stream is one watch that is being answered.
type stream struct {
	s       *Server
	who     access.Who
	print   string // of who and what: a place in the log is good for the same alone
	from    *watch.Watch
	end     func()
	to      http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
}

func (s *Server) joinWatch(r *http.Request) (*stream, error) {
	var kinds []string
	for _, k := range strings.Split(r.URL.Query().Get("kinds"), ",") {
		if !s.hub.Has(k) {
			return nil, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "write for example kinds=instances,events",
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
		return nil, wire.Problemf(http.StatusServiceUnavailable, codeTooManyWatches, "end some of your own, or ask without watching", "too many watch already",
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
		return nil, wire.Problemf(http.StatusServiceUnavailable, codeTooManyWatches, "try again later, or ask without watching", "too many watch already", "%d do, which is the most", maxWatches)
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
	timer := time.NewTimer(keepAlive)
	defer timer.Stop()
	began := false
	for {
		if !resumed {
			if err := st.everything(); err != nil {
				return err
			}
		} else if !began {
			st.event(wire.WatchEvent{Type: wire.WatchBegin})
			st.event(wire.WatchEvent{Type: wire.WatchSynced})
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
			timer.Reset(keepAlive)
			select {
			case <-more:
			case <-timer.C:
				st.buf.WriteString(":\n\n")
			case <-st.s.draining:
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
	st.event(wire.WatchEvent{Type: wire.WatchBegin, Full: true})
	state, now := st.from.State(), time.Now()
	for _, kind := range st.from.Kinds() {
		for _, item := range state[kind] {
			v, ok := item.Value.(watched)
			if !ok || !v.see(st.s, st.who) {
				continue
			}
			if err := st.object(wire.WatchPut, kind, item.Key, v, now); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(&st.buf, "id: %s\n", st.id())
	st.event(wire.WatchEvent{Type: wire.WatchSynced})
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
	what := wire.WatchPut
	if c.Gone {
		what = wire.WatchGone
	}
	if !v.see(st.s, st.who) {
		before, ok := c.Before.Value.(watched)
		if !ok || !before.see(st.s, st.who) {
			return nil
		}
		what, v = wire.WatchGone, before
	}
	fmt.Fprintf(&st.buf, "id: %s\n", st.print+"."+st.from.PlaceOf(c))
	return st.object(what, c.Kind, c.Key, v, time.Now())
}

func (st *stream) object(what, kind, key string, v watched, now time.Time) error {
	data, err := v.encode(now)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", kind, key, err)
	}
	st.event(wire.WatchEvent{Type: what, Kind: kind, Key: key, Object: data})
	if st.buf.Len() < watchChunk {
		return nil
	}
	return st.flush()
}

func (st *stream) event(e wire.WatchEvent) {
	data, err := json.Marshal(e)
	if err != nil { // its object was made by json itself
		data = []byte("{}")
	}
	fmt.Fprintf(&st.buf, "event: %s\ndata: %s\n\n", e.Type, data)
}

// flush sends what was written. Each time the client has the same patience to
// take it.
func (st *stream) flush() error {
	if st.buf.Len() == 0 {
		return nil
	}
	if err := st.control.SetWriteDeadline(time.Now().Add(st.s.patience.Watch)); err != nil {
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
func (s *Server) Watching() int { return s.hub.Watching() }
