package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lists are what the tests watch.
type lists struct {
	mu     sync.Mutex
	things map[string]string
	events []string
	sign   chan struct{}
	listed map[string]int
	broken error
	slow   time.Duration
}

func newLists() *lists {
	return &lists{things: map[string]string{}, sign: make(chan struct{}), listed: map[string]int{}}
}

// change changes something, with a sign if signed.
func (l *lists) change(signed bool, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	if signed {
		close(l.sign)
		l.sign = make(chan struct{})
	}
}

func (l *lists) put(key, value string) { l.change(true, func() { l.things[key] = value }) }

func (l *lists) count(kind string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listed[kind]
}

func (l *lists) list(kind string) func(context.Context) ([]Item, error) {
	return func(context.Context) ([]Item, error) {
		<-time.After(l.slow)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.listed[kind]++
		if l.broken != nil {
			return nil, l.broken
		}
		var out []Item
		for k, v := range l.things {
			out = append(out, Item{Key: k, Value: v, Same: v})
		}
		return out, nil
	}
}

func (l *lists) eventsFrom(n int) (out []Item, sign <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := n; i < len(l.events); i++ {
		out = append(out, Item{Key: fmt.Sprint(i + 1), Value: l.events[i]})
	}
	return out, l.sign
}

func (l *lists) hub() *Hub {
	return NewHub(Options{
		Max: 3, Log: slog.New(slog.DiscardHandler),
		Changed: func() <-chan struct{} {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.sign
		},
		Sources: []Source{
			{Kind: "things", List: l.list("things")},
			{Kind: "polled", List: l.list("polled"), Every: 5 * time.Second, Poll: true},
			{Kind: "events", List: func(context.Context) ([]Item, error) {
				out, _ := l.eventsFrom(0)
				return out, nil
			}, Next: func(ctx context.Context, after Item) ([]Item, error) {
				n := 0
				_, _ = fmt.Sscan(after.Key, &n)
				out, sign := l.eventsFrom(n)
				if len(out) > 0 {
					return out, nil
				}
				select {
				case <-sign:
				case <-ctx.Done():
				}
				return nil, ctx.Err()
			}},
		},
	})
}

func join(t *testing.T, h *Hub, kinds ...string) *Watch {
	t.Helper()
	w, err := h.Join(t.Context(), kinds)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// news is what a watch hears of, as text.
func news(t *testing.T, w *Watch) []string {
	t.Helper()
	changes, _, lost := w.Next(1000)
	if lost {
		t.Fatal("lost")
	}
	var out []string
	for _, c := range changes {
		if !w.Wants(c.Kind) {
			continue
		}
		s := fmt.Sprintf("%s %s=%v", c.Kind, c.Key, c.Value)
		if c.Gone {
			s += " gone"
		}
		out = append(out, s)
	}
	return out
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// settle lets the hub do what it does at once and some time later.
func settle() {
	synctest.Wait()
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		l.put("b", "1")
		h := l.hub()
		defer h.Close()
		w := join(t, h, "things")
		defer w.Close()
		if s := w.State()["things"]; len(s) != 1 || s[0].Value != "1" {
			t.Errorf("state %v", s)
		}
		settle()
		want(t, news(t, w))
		l.change(true, func() { l.things["c"], l.things["a"], l.things["b"] = "1", "1", "2" })
		settle()
		want(t, news(t, w), "things a=1", "things b=2", "things c=1")
		l.change(true, func() { delete(l.things, "b") })
		settle()
		want(t, news(t, w), "things b=2 gone")
		_, more, _ := w.Next(1)
		select {
		case <-more:
			t.Error("there is nothing more")
		default:
		}
		l.put("d", "1")
		<-more
		// A change that nobody tells of is heard of with the next.
		l.change(false, func() { l.things["e"] = "1" })
		settle()
		want(t, news(t, w), "things d=1")
		l.change(true, func() {})
		settle()
		want(t, news(t, w), "things e=1")
	})
}

// A sign that comes between the first list and the first look at the signs.
func TestNothingIsMissedAtTheBeginning(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			l := newLists()
			h := l.hub()
			defer h.Close()
			w := join(t, h, "things")
			defer w.Close()
			w.State()
			l.put("a", "1")
			settle()
			want(t, news(t, w), "things a=1")
		})
	}
}

// Whatever else wakes the log at the moment of a sign, none is missed.
func TestNoSignIsMissed(t *testing.T) {
	l := newLists()
	h := l.hub()
	defer h.Close()
	w := join(t, h, "things")
	defer w.Close()
	w.State()
	for i := range 40 {
		for range i % 7 {
			goruntime.Gosched()
		}
		other := join(t, h, "things") // it wakes the log
		l.put("a", fmt.Sprint(i))
		other.Close()
		for heard := false; !heard; {
			changes, more, _ := w.Next(1000)
			for _, c := range changes {
				heard = heard || c.Value == fmt.Sprint(i)
			}
			if heard {
				break
			}
			select {
			case <-more:
			case <-time.After(10 * time.Second):
				t.Fatalf("change %d was missed", i)
			}
		}
	}
}

func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		for i := range maxStream + 3 {
			l.events = append(l.events, fmt.Sprint(i))
		}
		h := l.hub()
		defer h.Close()
		w := join(t, h, "events", "things")
		defer w.Close()
		if s := w.State()["events"]; len(s) != maxStream || s[0].Value != "3" {
			t.Errorf("%d items from %v", len(s), s[0])
		}
		l.change(true, func() { l.events = append(l.events, "x", "y"); l.things["a"] = "1" })
		settle()
		got := news(t, w)
		slices.Sort(got)
		want(t, got, fmt.Sprintf("events %d=x", maxStream+4), fmt.Sprintf("events %d=y", maxStream+5), "things a=1")
		other := join(t, h, "events")
		defer other.Close()
		if s := other.State()["events"]; len(s) != maxStream || s[maxStream-1].Value != "y" {
			t.Errorf("who comes later sees %v", s[len(s)-1])
		}
	})
}

// Nobody watches: nothing is listed, whatever changes. The log goes on for a while
// for who comes back.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		h := l.hub()
		defer h.Close()
		l.put("a", "1")
		settle()
		if n := l.count("things"); n != 0 {
			t.Errorf("listed %d times", n)
		}
		w := join(t, h, "things", "polled", "events")
		w.State()
		settle()
		place := w.Place()
		w.Close()
		w.Close()
		l.put("b", "1")
		settle()
		back := join(t, h, "things")
		if !back.Resume(place) {
			t.Fatal("cannot go on")
		}
		want(t, news(t, back), "things b=1")
		settle()
		time.Sleep(linger + 10*time.Second) // nobody wants the others any more
		synctest.Wait()
		polled := l.count("polled")
		time.Sleep(time.Minute)
		if n := l.count("polled"); n != polled {
			t.Error("what nobody wants is listed")
		}
		if n := l.count("things"); n > 6 {
			t.Errorf("without changes it was listed %d times", n)
		}
		back.Close()
		time.Sleep(linger + time.Second)
		synctest.Wait()
		listed := l.count("things")
		l.put("c", "1")
		settle()
		if n := l.count("things"); n != listed || h.Watching() != 0 || h.run != nil {
			t.Error("it goes on although nobody watches")
		}
		again := join(t, h, "things")
		defer again.Close()
		if again.Resume(place) {
			t.Error("went on in another log")
		}
		if s := again.State()["things"]; len(s) != 3 {
			t.Errorf("state %v", s)
		}
	})
}

func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		h := l.hub()
		defer h.Close()
		w := join(t, h, "things")
		defer w.Close()
		w.State()
		settle()
		start := w.Place()
		for i := range 5 {
			l.put("a", fmt.Sprint(i))
			settle()
		}
		other := join(t, h, "things", "polled")
		defer other.Close()
		if other.Resume(start) {
			t.Error("went on before one of its kinds was followed")
		}
		id, _, _ := strings.Cut(start, "-")
		for _, bad := range []string{"", "x", "x-0", id + "-", id + "-x", id + "-999", id + "--1"} {
			if w.Resume(bad) {
				t.Errorf("went on from %q", bad)
			}
		}
		if !w.Resume(start) {
			t.Fatal("cannot go on")
		}
		if got, _, _ := w.Next(2); len(got) != 2 || got[1].Value != "1" || got[1].Before.Value != "0" {
			t.Errorf("%v", got)
		}
		if !w.Resume(w.Place()) {
			t.Error("cannot go on from the middle")
		}
		want(t, news(t, w), "things a=2", "things a=3", "things a=4")
	})
}

// Who is too slow for the log hears that it has missed something.
func TestLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		h := l.hub()
		defer h.Close()
		slow, quick := join(t, h, "things"), join(t, h, "things")
		defer slow.Close()
		defer quick.Close()
		slow.State()
		settle()
		quick.State()
		for round := range 3 {
			l.change(true, func() {
				for i := range maxLog / 2 {
					l.things[fmt.Sprint(i)] = fmt.Sprint(round)
				}
			})
			settle()
			if n := len(news(t, quick)); n != 1000 && n != maxLog/2 {
				t.Errorf("heard of %d", n)
			}
			quick.State()
		}
		if _, _, lost := slow.Next(1); !lost {
			t.Error("nothing was lost")
		}
		if n := len(slow.State()["things"]); n != maxLog/2 {
			t.Errorf("%d things", n)
		}
		want(t, news(t, slow))
	})
}

// Lists that take long are made less often, and all who watch share them.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		l.slow = 50 * time.Millisecond
		h := l.hub()
		defer h.Close()
		for range 3 {
			defer join(t, h, "things").Close()
		}
		settle()
		before := l.count("things")
		for range 1000 {
			l.put("a", time.Now().String())
			time.Sleep(10 * time.Millisecond)
		}
		settle()
		if n := l.count("things") - before; n < 10 || n > 40 {
			t.Errorf("listed %d times in 10 s", n)
		}
		if n := l.count("polled"); n != 0 {
			t.Errorf("what nobody wants was listed %d times", n)
		}
		if _, err := h.Join(t.Context(), []string{"polled"}); !errors.Is(err, ErrTooMany) {
			t.Errorf("a fourth: %v", err)
		}
	})
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		h := l.hub()
		defer h.Close()
		w := join(t, h, "polled")
		defer w.Close()
		w.State()
		settle()
		l.change(false, func() { l.things["a"] = "1" })
		time.Sleep(6 * time.Second)
		synctest.Wait()
		want(t, news(t, w), "polled a=1")
		before := l.count("polled")
		for range 60 {
			l.put("a", time.Now().String())
			time.Sleep(time.Second)
		}
		if n := l.count("polled") - before; n < 10 || n > 14 {
			t.Errorf("listed %d times in a minute", n)
		}
	})
}

func TestListsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLists()
		l.put("a", "1")
		h := l.hub()
		l.broken = errors.New("not here")
		if _, err := h.Join(t.Context(), []string{"things"}); !errors.Is(err, l.broken) {
			t.Errorf("got %v", err)
		}
		if _, err := h.Join(t.Context(), []string{"others"}); err == nil {
			t.Error("there are no others")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		l.slow = time.Second
		first := make(chan error, 1)
		go func() {
			_, err := h.Join(t.Context(), []string{"polled"})
			first <- err
		}()
		synctest.Wait()
		if _, err := h.Join(gone, []string{"polled"}); !errors.Is(err, context.Canceled) {
			t.Errorf("who is gone: %v", err)
		}
		if err := <-first; !errors.Is(err, l.broken) {
			t.Errorf("got %v", err)
		}
		l.slow = 0
		if h.Watching() != 0 {
			t.Error("somebody watches")
		}
		l.change(false, func() { l.broken = nil })
		w := join(t, h, "things")
		w.State()
		l.change(true, func() { l.broken = errors.New("for a while"); l.things["b"] = "1" })
		settle()
		want(t, news(t, w))
		l.change(false, func() { l.broken = nil }) // it is tried again by itself
		settle()
		want(t, news(t, w), "things b=1")
		h.Close()
		if _, err := h.Join(t.Context(), []string{"things"}); err == nil {
			t.Error("joined what was closed")
		}
		w.Close()
	})
}
