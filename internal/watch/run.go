package watch

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Change of an item.
type Change struct {
	Seq  uint64
	Kind string
	// Item as it is now; where Gone, as it was last.
	Item
	Gone bool
	// Before is what it was; the zero Item if it is new.
	Before Item
}

// run is one log, from the first who watches to some time after the last.
type run struct {
	hub    *Hub
	id     string
	life   func() context.Context // ends with the run
	cancel context.CancelFunc
	kick   chan struct{} // another kind is wanted

	listing chan struct{} // holds one while something is listed; taken before mu

	mu      sync.Mutex // guards below
	kinds   map[string]*list
	seq     uint64   // of the last change
	log     []Change // the last of them, without gaps
	changed chan struct{}
}

// list is what is known of one kind.
type list struct {
	Source
	listed bool // for the first time
	items  map[string]Item
	stream []Item // of a stream: the last, in order
	since  uint64 // what happened after this change is in the log
	wanted int    // by how many
	left   time.Time
	stop   context.CancelFunc // ends a stream
	// dirty: something may have changed; it is listed again after due.
	dirty bool
	due   time.Time
}

// want makes sure that kinds are followed. Every call is undone by unwant.
func (r *run) want(ctx context.Context, kinds map[string]bool) error {
	r.mu.Lock()
	for k := range kinds {
		if r.kinds[k] == nil {
			r.kinds[k] = &list{Source: r.hub.sources[k], items: map[string]Item{}}
		}
		r.kinds[k].wanted++
	}
	r.mu.Unlock()
	select {
	case r.listing <- struct{}{}:
		defer func() { <-r.listing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var failed error
	for k := range kinds {
		if err := r.first(ctx, k); err != nil && failed == nil {
			failed = err
		}
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
	return failed
}

// first lists a kind for the first time; nothing of that is a change.
func (r *run) first(ctx context.Context, kind string) error {
	r.mu.Lock()
	l := r.kinds[kind]
	listed := l.listed
	r.mu.Unlock()
	if listed {
		return nil
	}
	items, err := l.List(ctx)
	if err != nil {
		return err // whoever wants it next tries again
	}
	r.mu.Lock()
	l.since, l.listed, l.dirty = r.seq, true, true // it may have changed before anybody listened
	if l.Next == nil {
		for _, i := range items {
			l.items[i.Key] = i
		}
		r.mu.Unlock()
		return nil
	}
	var last Item
	if len(items) > 0 {
		last = items[len(items)-1]
	}
	l.stream = slices.Clone(items[max(0, len(items)-maxStream):])
	ctx, l.stop = context.WithCancel(r.life())
	r.mu.Unlock()
	r.hub.spawn(func() { r.follow(ctx, l, last) })
	return nil
}

func (r *run) unwant(kinds map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range kinds {
		if l := r.kinds[k]; l != nil {
			l.wanted--
			l.left = time.Now()
		}
	}
}

// work lists what may have changed, until ctx is done.
func (r *run) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	sign := r.hub.opts.Changed()
	for {
		next := r.listDue(ctx)
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		case <-timer.C:
		case <-sign:
			// Before the lists: a change while they are made is heard of again.
			sign = r.hub.opts.Changed()
			r.soil()
		}
	}
}

// soil notes that everything may have changed.
func (r *run) soil() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.kinds {
		l.dirty = true
	}
}

// forever is longer than anybody watches without a sign.
const forever = time.Hour

// listDue lists the kinds whose time has come and returns when to look again.
func (r *run) listDue(ctx context.Context) time.Duration {
	select {
	case r.listing <- struct{}{}:
		defer func() { <-r.listing }()
	case <-ctx.Done():
		return forever
	}
	now := time.Now()
	r.mu.Lock()
	var due []*list
	for k, l := range r.kinds {
		if l.wanted == 0 && now.Sub(l.left) > linger {
			if l.stop != nil {
				l.stop()
			}
			delete(r.kinds, k)
			continue
		}
		if l.listed && l.dirty && l.Next == nil && !now.Before(l.due) {
			l.dirty = false
			due = append(due, l)
		}
	}
	r.mu.Unlock()
	for _, l := range due {
		began := time.Now()
		items, err := l.List(ctx)
		if ctx.Err() != nil {
			return forever
		}
		if err != nil {
			r.hub.opts.Log.Debug("a list that is watched cannot be made", "kind", l.Kind, "error", err)
		} else {
			r.take(l, items)
		}
		took := time.Since(began)
		r.mu.Lock()
		l.due = time.Now().Add(max(l.Every, min(max(gapFactor*took, minGap), maxGap)))
		l.dirty = l.dirty || l.Poll || err != nil
		r.mu.Unlock()
	}
	return r.pause()
}

// pause is how long nothing is to be listed.
func (r *run) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := forever
	for _, l := range r.kinds {
		switch {
		case l.wanted == 0:
			d = min(d, linger+time.Second)
		case l.listed && l.dirty && l.Next == nil:
			d = min(d, time.Until(l.due))
		}
	}
	return max(d, 0)
}

// take compares a list with what it was before.
func (r *run) take(l *list, items []Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]Item, len(items))
	var changes []Change
	for _, i := range items {
		now[i.Key] = i
		if before := l.items[i.Key]; before.Same != i.Same || before.Key == "" {
			changes = append(changes, Change{Kind: l.Kind, Item: i, Before: before})
		}
	}
	for key, before := range l.items {
		if _, ok := now[key]; !ok {
			changes = append(changes, Change{Kind: l.Kind, Item: before, Gone: true, Before: before})
		}
	}
	l.items = now
	slices.SortStableFunc(changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	r.appendLocked(changes)
}

func (r *run) appendLocked(changes []Change) {
	if len(changes) == 0 {
		return
	}
	for _, c := range changes {
		r.seq++
		c.Seq = r.seq
		r.log = append(r.log, c)
	}
	if over := len(r.log) - maxLog; over > 0 {
		r.log = slices.Delete(r.log, 0, over)
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// follow takes over what comes in a stream, until ctx is done.
func (r *run) follow(ctx context.Context, l *list, last Item) {
	for ctx.Err() == nil {
		items, err := l.Next(ctx, last)
		if err != nil || len(items) == 0 {
			pause := minGap // it need not wait as long as it could
			if err != nil {
				pause = time.Second
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			continue
		}
		last = items[len(items)-1]
		changes := make([]Change, len(items))
		for i, item := range items {
			changes[i] = Change{Kind: l.Kind, Item: item}
		}
		r.mu.Lock()
		l.stream = append(l.stream, items...)
		if over := len(l.stream) - maxStream; over > 0 {
			l.stream = slices.Delete(l.stream, 0, over)
		}
		r.appendLocked(changes)
		r.mu.Unlock()
	}
}

// all are the items of a kind, in the order of their keys, or of the stream. The
// mutex is held.
func (l *list) all() []Item {
	if l.Next != nil {
		return slices.Clone(l.stream)
	}
	out := make([]Item, 0, len(l.items))
	for _, k := range slices.Sorted(maps.Keys(l.items)) {
		out = append(out, l.items[k])
	}
	return out
}
