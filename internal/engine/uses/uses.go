package uses

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// usedFor is how long after its last use the endpoints of a service are still
	// wanted; a service that is used for that long is looked at that often.
	usedFor = 10 * time.Minute
	// ToldWithin bounds how long the first use of a service waits for its endpoints.
	ToldWithin = 3 * time.Second
	// shownWithin bounds how long a report waits for them.
	shownWithin = 700 * time.Millisecond
)

// Uses is what this worker needs endpoints of: all services of the applications that
// it runs instances of, and beside them those that were asked for. It is kept with the
// routes: a successor begins with the services whose endpoints it finds there.
type Uses struct {
	publish func(*wire.Uses) // shows it; called with mu held
	// used says when services were used last that are not asked for each time, those
	// that are in use now among them. It is called without any lock.
	used func(keys []string) map[string]time.Time

	mu     sync.Mutex           // guards below
	routes map[string]bool      // by key: whether its endpoints are here
	apps   []string             // sorted
	asked  map[string]time.Time // by key: when it was asked for last, as far as is known
	all    time.Time            // until then all endpoints are wanted
	said   *wire.Uses           // what was published last
	news   chan struct{}        // closed and replaced with every set of routes
	wake   chan struct{}        // holds one: there may be less time until something expires
}

// New publishes what is used by publish, which is called with a lock held.
func New(publish func(*wire.Uses)) *Uses {
	return &Uses{
		publish: publish, used: func([]string) map[string]time.Time { return nil },
		routes: map[string]bool{}, asked: map[string]time.Time{}, news: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
}

// SetUsed says how to ask when services were used last that are not asked for each time,
// those that are in use now among them. It is called before Run.
func (u *Uses) SetUsed(used func(keys []string) map[string]time.Time) { u.used = used }

// Load takes over the routes of an earlier engine: what they had endpoints of is still
// used, as far as anybody knows.
func (u *Uses) Load(routes []wire.Route, now time.Time) {
	u.mu.Lock()
	for i := range routes {
		if !routes[i].Unasked {
			u.asked[routes[i].Key()] = now
		}
	}
	u.mu.Unlock()
	u.Set(routes)
}

// Set records which routes have endpoints here, and releases those that wait for some.
func (u *Uses) Set(routes []wire.Route) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.routes = make(map[string]bool, len(routes))
	for i := range routes {
		u.routes[routes[i].Key()] = !routes[i].Unasked
	}
	for key := range u.asked {
		if _, known := u.routes[key]; !known {
			delete(u.asked, key)
		}
	}
	close(u.news)
	u.news = make(chan struct{})
	u.sayLocked()
}

// SetApps says which applications have instances here. Clients here may still use the services of
// one whose last instance leaves, as its gateway does: Run looks which of them, at once.
func (u *Uses) SetApps(apps map[string]bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, told := range u.routes {
		app, _, _ := strings.Cut(key, ".")
		if _, had := slices.BinarySearch(u.apps, app); told && had && !apps[app] && u.asked[key].IsZero() {
			u.asked[key] = time.Now().Add(-usedFor)
			loop.Poke(u.wake)
		}
	}
	u.apps = slices.Sorted(maps.Keys(apps))
	u.sayLocked()
}

// Use notes that a service is used. It returns at once.
func (u *Uses) Use(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.useLocked(key, time.Now())
}

func (u *Uses) useLocked(key string, now time.Time) {
	if _, known := u.routes[key]; !known {
		return
	}
	_, before := u.asked[key]
	u.asked[key] = now
	if !before {
		u.sayLocked()
		loop.Poke(u.wake)
	}
}

// sayLocked publishes what is used where it has changed.
func (u *Uses) sayLocked() {
	s := &wire.Uses{All: true}
	// Beyond this, listing them one by one is not worth it.
	if u.all.IsZero() && len(u.asked) <= 2*wire.MaxUses {
		s = &wire.Uses{Apps: u.apps}
		for _, key := range slices.Sorted(maps.Keys(u.asked)) {
			app, _, _ := strings.Cut(key, ".")
			if _, own := slices.BinarySearch(u.apps, app); !own {
				s.Services = append(s.Services, key)
			}
		}
		if len(s.Apps)+len(s.Services) > wire.MaxUses {
			s = &wire.Uses{All: true}
		}
	}
	if u.said != nil && u.said.All == s.All && slices.Equal(u.said.Apps, s.Apps) &&
		slices.Equal(u.said.Services, s.Services) {
		return
	}
	u.said = s
	u.publish(s)
}

// Await returns when the endpoints of a service are here, or there is no such service. An error
// says that they did not come in time.
func (u *Uses) Await(ctx context.Context, key string) error {
	u.Use(key)
	return u.wait(ctx, ToldWithin, key, func() bool { told, known := u.routes[key]; return told || !known })
}

// AwaitAll asks for all endpoints, for a report about all workers.
func (u *Uses) AwaitAll(ctx context.Context) error {
	u.mu.Lock()
	u.all = time.Now().Add(usedFor)
	u.sayLocked()
	loop.Poke(u.wake)
	u.mu.Unlock()
	return u.wait(ctx, shownWithin, "all services", func() bool {
		for _, told := range u.routes {
			if !told {
				return false
			}
		}
		return true
	})
}

// wait waits until there returns true, which is called with mu held.
func (u *Uses) wait(ctx context.Context, most time.Duration, what string, there func() bool) error {
	var timeout <-chan time.Time
	for {
		u.mu.Lock()
		ok, news := there(), u.news
		u.mu.Unlock()
		if ok {
			return nil
		}
		if timeout == nil {
			t := time.NewTimer(most)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-timeout:
			return fmt.Errorf("this worker has not used %s for a while, and its cluster does not say where instances "+
				"are: it did not answer within %s", what, most)
		}
	}
}

// Run forgets unused services, until ctx is done. It sleeps while there is nothing to forget.
func (u *Uses) Run(ctx context.Context) {
	for {
		next := u.expire(time.Now())
		var timer *time.Timer
		var due <-chan time.Time
		if !next.IsZero() {
			timer = time.NewTimer(time.Until(next))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-u.wake:
		case <-due:
		}
		if timer != nil {
			timer.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// expire forgets what was not used for usedFor, and says when to look again; zero is
// when there is something new.
func (u *Uses) expire(now time.Time) (next time.Time) {
	u.mu.Lock()
	var old []string
	for key, at := range u.asked {
		if now.Sub(at) >= usedFor {
			old = append(old, key)
		}
	}
	u.mu.Unlock()
	var still map[string]time.Time
	if len(old) > 0 {
		still = u.used(old)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range old {
		if at := still[key]; at.After(u.asked[key]) {
			u.asked[key] = at
		}
		if now.Sub(u.asked[key]) >= usedFor {
			delete(u.asked, key)
		}
	}
	if !u.all.IsZero() && !now.Before(u.all) {
		u.all = time.Time{}
	}
	u.sayLocked()
	for _, at := range u.asked {
		if end := at.Add(usedFor); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	if !u.all.IsZero() && (next.IsZero() || u.all.Before(next)) {
		next = u.all
	}
	return next
}
