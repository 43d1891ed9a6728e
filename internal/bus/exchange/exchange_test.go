package exchange_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// pair is one lower and one upper side over an in-memory bus.
type pair struct {
	t        *testing.T
	hub      *bustest.Mem
	low      *bustest.MemConn
	changed  chan struct{}
	source   *exchange.MemSource
	desired  *lowerStore
	notifier *exchange.Notifier

	mu       sync.Mutex
	store    *bustest.MemStore
	inbox    *exchange.Inbox
	reports  int
	answered int
	fetches  int
	fulls    int
	statuses []string
	left     bool
	proves   bool   // the upper side makes proofs
	ahead    []bool // of first reports: whether they prove that the store is an older copy
	refuse   string // why reports are refused, "" if they are not
	stop     func()
	end      func() // ends the lower side
}

// lowerStore is the desired state as the lower side stores it.
type lowerStore struct {
	mu    sync.Mutex
	have  wire.Rev
	proof []byte
	state map[string]string
	// lacks a part that it did not know of: all is to be fetched again.
	lacks bool
	fail  error
}

func (s *lowerStore) Have() wire.Rev {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have
}

func (s *lowerStore) Proof() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof
}

func (s *lowerStore) Take(_ context.Context, full bool, changes []wire.Change, to wire.Rev, proof []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if full {
		s.lacks = false
		s.state = map[string]string{}
	}
	for _, c := range changes {
		if c.Deleted {
			delete(s.state, c.Key)
		} else {
			s.state[c.Key] = string(c.Value)
		}
	}
	s.have, s.proof = to, proof
	return nil
}

func (s *lowerStore) get() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.state)
}

func newPair(t *testing.T) *pair {
	p := &pair{
		t: t, hub: bustest.NewMem(), changed: make(chan struct{}, 1), source: exchange.NewMemSource(),
		desired: &lowerStore{state: map[string]string{}}, store: bustest.NewMemStore(),
	}
	p.low = p.hub.Conn("w1", bus.Permissions{Publish: []string{"w.w1.>"}, Subscribe: []string{"o.w1.>"}})
	p.startUpper(p.store)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	lower := &exchange.Lower{
		Conn: p.low, Subjects: exchange.WorkerSubjects("w1"), Desired: p.desired, Observed: p.source,
		Changed: p.changed, Min: time.Second, Max: 10 * time.Second, Beats: 3, Farewell: true, Log: slog.New(slog.DiscardHandler),
		Partial: func() bool {
			p.desired.mu.Lock()
			defer p.desired.mu.Unlock()
			return p.desired.lacks
		},
		Status: func(full bool) (json.RawMessage, error) {
			if full {
				return json.RawMessage(`"all"`), nil
			}
			return nil, nil
		},
		Answer: func(_ context.Context, q rpc.Ask) (any, error) {
			switch q.What {
			case "echo":
			case "missing":
				return nil, fmt.Errorf("looking: %w", wire.Problemf(404, "no-such-thing", "look elsewhere", "there is no such thing", "%s", q.Instance))
			case "odd":
				return nil, wire.Problemf(200, "odd", "", strings.Repeat("ö", 10_000), "")
			default:
				return nil, errors.New("no such question")
			}
			return q.Instance, nil
		},
	}
	go func() { done <- lower.Run(ctx) }()
	p.end = cancel
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
		p.stop()
		p.low.Close()
	})
	return p
}

// startUpper starts a new upper process, which knows nothing, on a store.
func (p *pair) startUpper(store *bustest.MemStore) {
	if p.stop != nil {
		p.stop()
	}
	p.mu.Lock()
	p.store, p.inbox = store, &exchange.Inbox{}
	p.mu.Unlock()
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	conn := p.hub.Conn("upper", all)
	u := exchange.Upper{
		Conn: conn, Log: slog.New(slog.DiscardHandler),
		Peer:  func(s string) string { return strings.Split(s, ".")[1] },
		Nudge: func(string) { p.nudge() },
		OnReport: func(_ context.Context, peer string, r wire.Report) wire.ReportReply {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.reports++
			if r.From.IsZero() || r.From != r.To { // one-way it says what it was told last
				p.answered++
			}
			p.left = r.Leaving
			if p.refuse != "" {
				return wire.ReportReply{V: wire.Version, Refused: p.refuse}
			}
			if r.Status != nil {
				p.statuses = append(p.statuses, string(r.Status))
			}
			if r.From.IsZero() && !r.To.IsZero() {
				p.fulls++
			}
			p.inbox.Accept(r)
			d := p.upperDesired(peer)
			reply := wire.ReportReply{V: wire.Version, Want: d.Rev(), Ack: p.inbox.AckFor(r)}
			if r.Status != nil {
				_, ahead := d.Ahead(r.Have, r.Proof)
				p.ahead = append(p.ahead, ahead)
				if reply.Want == r.Have && len(r.Proof) == 0 {
					reply.Proof = d.Proof(r.Have)
				}
			}
			return reply
		},
		Desired: func(peer string) (exchange.Desired, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.fetches++
			return p.upperDesired(peer), true
		},
	}
	p.notifier = &exchange.Notifier{
		Conn: conn, Log: slog.New(slog.DiscardHandler),
		Subject: func(peer string) string { return exchange.WorkerSubjects(peer).Nudge },
	}
	stop, err := u.Serve("w.*.report", "w.*.fetch")
	if err != nil {
		p.t.Fatal(err)
	}
	p.stop = func() { p.notifier.Close(); stop(); conn.Close() }
}

func (p *pair) upperDesired(peer string) exchange.Desired {
	d := exchange.Desired{Store: p.store, Parts: []exchange.Part{{Prefix: "to." + peer + ".", As: "order."}, {Prefix: "route.", As: "route."}}}
	if p.proves {
		d.Prove = func(r wire.Rev) []byte { return []byte(peer + "/" + r.Inc + "/" + strconv.FormatUint(r.N, 10)) }
	}
	return d
}

func (p *pair) put(key, value string) {
	p.t.Helper()
	if _, err := p.store.Put(context.Background(), key, []byte(value)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pair) observe(key, value string) {
	p.source.Set(key, []byte(value))
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// seen is what the upper side has of the observed state.
func (p *pair) seen() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]string{}
	for k, v := range p.inbox.State() {
		out[k] = string(v)
	}
	return out
}

func (p *pair) nudge() {
	p.t.Helper()
	c := p.hub.Conn("nudger", bus.Permissions{Publish: []string{">"}})
	defer c.Close()
	if err := exchange.Nudge(c, exchange.WorkerSubjects("w1")); err != nil {
		p.t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func TestBothStatesArriveAndFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", `1`)
		p.put("to.w2.x", `"not ours"`)
		p.put("route.r", `2`)
		p.observe("a", `"running"`)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		equal(t, "desired", p.desired.get(), map[string]string{"order.a": "1", "route.r": "2"})
		equal(t, "observed", p.seen(), map[string]string{"a": `"running"`})

		// A change above arrives with a nudge, at once and alone.
		if _, err := p.store.Delete(context.Background(), "to.w1.a"); err != nil {
			t.Fatal(err)
		}
		p.nudge()
		synctest.Wait()
		equal(t, "desired after a delete", p.desired.get(), map[string]string{"route.r": "2"})

		// And one below without waiting for λ.
		p.source.Drop("a")
		p.observe("b", `"pending"`)
		synctest.Wait()
		equal(t, "observed after a change", p.seen(), map[string]string{"b": `"pending"`})
	})
}

func TestIdleIsOneReportEveryHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		p.mu.Lock()
		before := p.reports
		p.mu.Unlock()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		// λ is 10 s less up to a tenth of jitter.
		if n := p.reports - before; n < 60 || n > 67 {
			t.Errorf("%d reports in ten idle minutes, want 60 to 67", n)
		}
		if len(p.statuses) != 1 {
			t.Errorf("the status was said %d times, want once", len(p.statuses))
		}
	})
}

// While nothing happens one report of four is answered. What the other three say is heard
// all the same, and who has something to say to one of them is asked at once.
func TestOneWayReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.observe("a", `"running"`)
		time.Sleep(time.Minute)
		synctest.Wait()
		count := func() (reports, answered int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.reports, p.answered
		}
		reports, answered := count()
		time.Sleep(time.Hour)
		synctest.Wait()
		r, a := count()
		if r, a = r-reports, a-answered; r < 360 || a < r/4-1 || a > r/4+1 {
			t.Errorf("%d reports in an idle hour, of which %d were answered, want a quarter of 360 or more", r, a)
		}
		// A nudge that was lost costs a λ, no more, whichever report is next.
		for n := range 8 {
			want := fmt.Sprint(n)
			p.put("to.w1.a", want)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			equal(t, "desired a λ after a change of which nobody told", p.desired.get(), map[string]string{"order.a": want})
			time.Sleep(time.Duration(40+10*n) * time.Second)
		}
		// So does an upper side that has forgotten, behind a bus that has not.
		for n := range 4 {
			time.Sleep(time.Duration(60+10*n) * time.Second)
			p.startUpper(p.store)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			equal(t, "observed a λ after a restart", p.seen(), map[string]string{"a": `"running"`})
		}
		// What is new is not said one-way.
		time.Sleep(time.Minute)
		p.observe("b", `"pending"`)
		synctest.Wait()
		equal(t, "observed", p.seen(), map[string]string{"a": `"running"`, "b": `"pending"`})
		// And a bus that is gone is noticed.
		p.low.SetConnected(false)
		before, _ := count()
		time.Sleep(time.Minute)
		if after, _ := count(); after != before {
			t.Errorf("%d reports were heard of one that is cut off", after-before)
		}
	})
}

func TestARestartedUpperIsToldEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", `1`)
		for i := range 1200 { // three pages
			p.source.Set(fmt.Sprintf("i%04d", i), []byte(`"x"`))
		}
		p.observe("last", `"y"`)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(p.seen()); n != 1201 {
			t.Fatalf("%d keys observed, want 1201", n)
		}
		fetched := p.desired.Have()

		p.startUpper(p.store.Reopen())
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := len(p.seen()); n != 1201 {
			t.Errorf("%d keys observed after the restart, want 1201", n)
		}
		// An ordinary restart does not change what is desired.
		if have := p.desired.Have(); have != fetched {
			t.Errorf("desired state moved from %v to %v by a restart", fetched, have)
		}
	})
}

// A store that is put back to an older copy: nothing of the newer history may
// remain below, whatever happened on either side since.
func TestARestoredUpperResynchronisesFully(t *testing.T) {
	for _, after := range []int{0, 1, 50} { // writes after the restore, before anyone reports
		t.Run(fmt.Sprintf("%d writes later", after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				p.put("to.w1.old", `1`)
				copied, err := p.store.Snapshot(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				p.put("to.w1.new", `2`)
				p.put("to.w1.old", `3`)
				for i := range 5 {
					p.put(fmt.Sprintf("to.w1.n%d", i), `9`)
				}
				p.nudge()
				synctest.Wait()
				if got := p.desired.get(); len(got) != 7 {
					t.Fatalf("before the restore: %v", got)
				}
				restored := bustest.OpenMemStore(copied)
				want := map[string]string{"order.old": "1"}
				for i := range after {
					key := fmt.Sprintf("m%d", i)
					if _, err := restored.Put(context.Background(), "to.w1."+key, []byte("5")); err != nil {
						t.Fatal(err)
					}
					want["order."+key] = "5"
				}
				p.startUpper(restored)
				time.Sleep(15 * time.Second)
				synctest.Wait()
				equal(t, "desired after the restore", p.desired.get(), want)
			})
		})
	}
}

// A lower side that has learnt of a part that it left out before has all of it at the next
// report that is answered, once.
func TestWhatWasLeftOutIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", "1")
		p.nudge()
		time.Sleep(time.Minute)
		p.desired.mu.Lock()
		p.desired.lacks = true
		delete(p.desired.state, "order.a") // as a version before left it out
		p.desired.mu.Unlock()
		p.mu.Lock()
		before := p.fetches
		p.mu.Unlock()
		time.Sleep(5 * time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if got := p.desired.get(); len(got) != 1 || p.fetches != before+1 {
			t.Errorf("it has %v after %d fetches", got, p.fetches-before)
		}
	})
}

func TestWhatCouldNotBeStoredIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.desired.mu.Lock()
		p.desired.fail = errors.New("disk full")
		p.desired.mu.Unlock()
		p.put("to.w1.a", `1`)
		p.nudge()
		time.Sleep(time.Minute)
		equal(t, "desired while the disk is full", p.desired.get(), map[string]string{})
		p.desired.mu.Lock()
		p.desired.fail = nil
		p.desired.mu.Unlock()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		equal(t, "desired afterwards", p.desired.get(), map[string]string{"order.a": "1"})
	})
}

// What was said of itself in a report that was refused is said again: the upper one
// could not take it over.
func TestWhatWasRefusedIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(15 * time.Second)
		p.mu.Lock()
		before := len(p.statuses)
		p.refuse = "the disk is full"
		p.mu.Unlock()
		time.Sleep(30 * time.Second)
		p.mu.Lock()
		p.refuse = ""
		p.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if n := len(p.statuses) - before; n != 1 {
			t.Errorf("said %d times after it was refused, want once", n)
		}
	})
}

func TestALinkThatWasCutCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(time.Second)
		p.low.SetConnected(false)
		p.put("to.w1.a", `1`)
		p.observe("a", `"running"`)
		time.Sleep(time.Hour)
		synctest.Wait()
		equal(t, "desired while cut", p.desired.get(), map[string]string{})
		p.low.SetConnected(true)
		time.Sleep(time.Second)
		synctest.Wait()
		equal(t, "desired", p.desired.get(), map[string]string{"order.a": "1"})
		equal(t, "observed", p.seen(), map[string]string{"a": `"running"`})
	})
}

func TestLargeStatesArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		big := `"` + strings.Repeat("x", 300<<10) + `"`
		want := map[string]string{}
		for i := range 7 {
			key := fmt.Sprintf("k%d", i)
			p.put("to.w1."+key, big)
			p.source.Set(key, []byte(big))
			want[key] = big
		}
		p.nudge()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if n := len(p.desired.get()); n != 7 {
			t.Errorf("%d desired keys, want 7", n)
		}
		equal(t, "observed", p.seen(), want)
	})
}

// restless is a store in which something else changes whenever a page is read.
type restless struct {
	*bustest.MemStore
	n *int
}

func (s restless) List(ctx context.Context, prefix string) ([]bus.Entry, error) {
	e, err := s.MemStore.List(ctx, prefix)
	return e, errors.Join(err, s.stir(ctx))
}

func (s restless) Changes(ctx context.Context, since uint64, prefixes ...string) ([]bus.Entry, bool, error) {
	e, ok, err := s.MemStore.Changes(ctx, since, prefixes...)
	return e, ok, errors.Join(err, s.stir(ctx))
}

// stir changes a route, writes a large key again, and takes one away.
func (s restless) stir(ctx context.Context) error {
	if *s.n++; *s.n > 12 {
		return nil
	}
	_, err := s.Commit(ctx, bus.Put("route.busy", fmt.Appendf(nil, "%d", *s.n)),
		bus.Put("to.w1.k0", fmt.Appendf(nil, "%d", *s.n)), bus.Del(fmt.Sprintf("to.w1.k%d", *s.n+5)))
	return err
}

// A state that never rests is fetched to its end all the same, and what is taken
// over is what was there: no key of the middle of a change is missing.
// A value beyond the size of a message arrives, packed, beside others; who does not read
// what is packed is sent it as it is.
func TestLargeValuesArePacked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		large := func(n int) string { return `"` + strings.Repeat(fmt.Sprintf("%06d", n), wire.MaxMessageBytes/3) + `"` }
		want := map[string]string{}
		for n := range 5 {
			key := fmt.Sprint("large-", n)
			p.put("route."+key, large(n))
			want["route."+key] = large(n)
			p.put("to.w1."+key, `"small"`)
			want["order."+key] = `"small"`
		}
		time.Sleep(15 * time.Second)
		synctest.Wait()
		equal(t, "desired", p.desired.get(), want)
		p.put("route.large-2", large(7))
		want["route.large-2"] = large(7)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		equal(t, "desired after a change", p.desired.get(), want)

		d := p.upperDesired("w1")
		for _, unpacks := range []bool{true, false} {
			at := wire.Rev{}
			for packed, plain := 0, 0; ; {
				page, err := d.Fetch(t.Context(), wire.Fetch{V: wire.Version, At: at, Unpacks: unpacks})
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(page)
				if err != nil || unpacks && len(b) > wire.MaxMessageBytes {
					t.Fatalf("a page has %d bytes, %v", len(b), err)
				}
				for _, c := range page.Changes {
					if c.Packed != nil {
						packed++
					} else if len(c.Value) >= 64<<10 {
						plain++
					}
				}
				if at = page.To; !page.More {
					if unpacks && (packed != 5 || plain != 0) || !unpacks && (packed != 0 || plain != 5) {
						t.Errorf("who unpacks %v is sent %d packed and %d as they are", unpacks, packed, plain)
					}
					break
				}
			}
		}
	})
}

func TestPagesOfABusyStateAreNotFetchedAgain(t *testing.T) {
	ctx := t.Context()
	for _, known := range []bool{false, true} { // all of it, and what changed since
		n := 0
		store := restless{bustest.NewMemStore(), &n}
		d := exchange.Desired{Store: store, Parts: []exchange.Part{{Prefix: "to.w1.", As: "order."}, {Prefix: "route.", As: "route."}}}
		put := func(key, value string) {
			t.Helper()
			if _, err := store.Put(ctx, key, []byte(value)); err != nil {
				t.Fatal(err)
			}
		}
		put("route.first", "1")
		f := wire.Fetch{V: wire.Version}
		if known {
			f.Since = d.Rev()
		}
		big := strings.Repeat("x", 300<<10)
		for i := range 10 {
			put(fmt.Sprintf("to.w1.k%d", i), big)
		}
		got, pages := map[string]string{"order.stale": "1"}, 0
		if known {
			got = map[string]string{"route.first": "1"}
		}
		for more := true; more; pages++ {
			if pages > 20 {
				t.Fatalf("known %v: there is no end", known)
			}
			page, err := d.Fetch(ctx, f)
			if err != nil || page.Moved {
				t.Fatalf("known %v: page %d: moved %v, %v", known, pages, page.Moved, err)
			}
			if pages == 0 && page.Full == known {
				t.Fatalf("known %v: full %v", known, page.Full)
			}
			if pages == 0 && page.Full {
				got = map[string]string{}
			}
			for _, c := range page.Changes {
				if c.Deleted {
					delete(got, c.Key)
				} else {
					got[c.Key] = string(c.Value)
				}
			}
			f.At, more = page.To, page.More
		}
		want := map[string]string{}
		for prefix, as := range map[string]string{"to.w1.": "order.", "route.": "route."} {
			list, err := store.MemStore.List(ctx, prefix)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				want[as+strings.TrimPrefix(e.Key, prefix)] = string(e.Value)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("known %v: %d keys, want %d", known, len(got), len(want))
		}
		if f.At != d.Rev() {
			t.Errorf("known %v: the pages led to %v, it is at %v", known, f.At, d.Rev())
		}
	}
}

// A key that changed between two pages is handed on once, as it was last.
func TestABusyStateIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		synctest.Wait()
		big := `"` + strings.Repeat("x", 300<<10) + `"`
		want := map[string]string{}
		for i := range 9 {
			key := fmt.Sprintf("k%d", i)
			p.put("to.w1."+key, big)
			want["order."+key] = big
		}
		// Written between the pages: the fetches are seen by a listener.
		all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
		spy := p.hub.Conn("spy", all)
		defer spy.Close()
		fetches := 0
		stop, err := spy.Subscribe("w.w1.fetch", func(context.Context, bus.Msg) {
			if fetches++; fetches < 7 {
				p.put("to.w1.k0", fmt.Sprintf("%d", fetches))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		p.nudge()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		p.mu.Lock()
		e, err := p.store.Get(context.Background(), "to.w1.k0")
		p.mu.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		want["order.k0"] = string(e.Value)
		equal(t, "desired", p.desired.get(), want)
		if have, is := p.desired.Have(), p.upperDesired("w1").Rev(); have != is {
			t.Errorf("has %v, it is %v", have, is)
		}
	})
}

func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		synctest.Wait()
		c := p.hub.Conn("asker", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		var out string
		if err := exchange.AskPeer(ctx, c, exchange.WorkerSubjects("w1"), rpc.Ask{What: "echo", Instance: "hi"}, &out); err != nil || out != "hi" {
			t.Errorf("got %q, %v", out, err)
		}
		if err := exchange.AskPeer(ctx, c, exchange.WorkerSubjects("w1"), rpc.Ask{What: "else"}, &out); err == nil || !strings.Contains(err.Error(), "no such question") {
			t.Errorf("a question that nobody answers gave %v", err)
		}
		var problem *wire.Problem
		err := exchange.AskPeer(ctx, c, exchange.WorkerSubjects("w1"), rpc.Ask{What: "missing", Instance: "x"}, &out)
		if !errors.As(err, &problem) || *problem != *wire.Problemf(404, "no-such-thing", "look elsewhere", "there is no such thing", "x") {
			t.Errorf("a problem arrived as %#v", err)
		}
		err = exchange.AskPeer(ctx, c, exchange.WorkerSubjects("w1"), rpc.Ask{What: "odd"}, &out)
		if !errors.As(err, &problem) || problem.Status != 502 || len(problem.Title) > 5000 {
			t.Errorf("an odd problem arrived as %v", err)
		}
		if err := exchange.AskPeer(ctx, c, exchange.WorkerSubjects("w2"), rpc.Ask{What: "echo"}, &out); !errors.Is(err, bus.ErrNoResponder) {
			t.Errorf("asking nobody gave %v", err)
		}
	})
}

func TestAnOrderlyEndIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(15 * time.Second)
		p.end()
		synctest.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.left {
			t.Error("the upper side does not know that the lower one left")
		}
	})
}

// An upper side that is back but not ready yet must not be given up for as long
// as it was away.
func TestALinkThatIsBackIsTriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		time.Sleep(time.Second)
		p.stop() // nobody answers, and the link is cut
		p.low.SetConnected(false)
		p.observe("a", `"running"`)
		time.Sleep(10 * time.Minute)
		p.low.SetConnected(true)
		time.Sleep(100 * time.Millisecond) // the first try meets nobody
		p.stop = nil
		p.startUpper(p.store)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		equal(t, "observed", p.seen(), map[string]string{"a": `"running"`})
	})
}
