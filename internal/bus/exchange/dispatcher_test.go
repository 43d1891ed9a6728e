package exchange

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/wire"
)

// A peer that asks without end, and is slow to be answered, keeps nobody else
// from being heard; of what it asked meanwhile the latest is worked on.
func TestOnePeerDoesNotHoldUpAnother(t *testing.T) {
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	hub := bustest.NewMem()
	conn, peers := hub.Conn("upper", all), hub.Conn("peers", all)
	defer peers.Close()
	defer conn.Close()
	release, entered := make(chan struct{}), make(chan struct{}, 1)
	var mu sync.Mutex
	var heard []uint64
	u := Upper{
		Conn: conn, Log: slog.New(slog.DiscardHandler),
		Peer: func(subject string) string { return strings.Split(subject, ".")[1] },
		OnReport: func(_ context.Context, peer string, r wire.Report) wire.ReportReply {
			if peer == "bad" {
				mu.Lock()
				heard = append(heard, r.To.N)
				mu.Unlock()
				select {
				case entered <- struct{}{}:
				default:
				}
				<-release
			}
			return wire.ReportReply{V: wire.Version}
		},
		Desired: func(string) (Desired, bool) { return Desired{}, false },
	}
	stop, err := u.Serve("w.*.report", "w.*.fetch")
	if err != nil {
		t.Fatal(err)
	}
	for n := range uint64(100) {
		b, err := json.Marshal(wire.Report{V: wire.Version, To: wire.Rev{Inc: "x", N: n + 1}})
		if err == nil {
			err = peers.Publish("w.bad.report", b)
		}
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			<-entered
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := peers.Request(ctx, "w.good.report", []byte(`{"v":1}`)); err != nil {
		t.Fatalf("the other peer is not answered: %v", err)
	}
	close(release)
	if _, err := peers.Request(ctx, "w.good.report", []byte(`{"v":1}`)); err != nil {
		t.Fatal(err)
	}
	for last := uint64(0); last != 100; {
		if ctx.Err() != nil {
			t.Fatalf("its latest report was not worked on: %v", heard)
		}
		mu.Lock()
		last = heard[len(heard)-1]
		mu.Unlock()
	}
	stop()
	if len(heard) > 3 {
		t.Errorf("%d of its reports were worked on, want the first and the latest", len(heard))
	}
}

// Who has worked is there for the next request, and not for ever.
func TestDispatcherKeepsSome(t *testing.T) {
	for _, keep := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			done := map[string]int{}
			var mu sync.Mutex
			d := newDispatcher(keep, func(_ context.Context, m bus.Msg) {
				<-release
				mu.Lock()
				defer mu.Unlock()
				done[m.Subject]++
			})
			const peers = 5
			for round := range 3 {
				for n := range peers {
					name := string(rune('a' + n))
					d.take(t.Context(), name, bus.Msg{Subject: name})
				}
				synctest.Wait()
				for range peers {
					release <- struct{}{}
				}
				synctest.Wait()
				if d.idle != keep || len(d.next) != 0 {
					t.Fatalf("%d wait, %d are worked for; want %d and none", d.idle, len(d.next), keep)
				}
				for name, times := range done {
					if times != round+1 {
						t.Fatalf("%s was worked for %d times in %d rounds", name, times, round+1)
					}
				}
			}
			d.close()
			d.take(t.Context(), "late", bus.Msg{Subject: "late"})
			synctest.Wait()
			if len(done) != peers {
				t.Errorf("worked for %v", done)
			}
		})
	}
}

// A plain report is answered on the spot where that needs no waiting. Where it does, or
// somebody works for its peer, or it says more, it goes the ordinary way.
func TestPlainReportsAreTriedFirst(t *testing.T) { synctest.Test(t, plainReportsAreTriedFirst) }

func plainReportsAreTriedFirst(t *testing.T) {
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	hub := bustest.NewMem()
	conn, peers := hub.Conn("upper", all), hub.Conn("peers", all)
	defer peers.Close()
	defer conn.Close()
	entered, release := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	may, tried, worked := true, 0, 0
	u := Upper{
		Conn: conn, Log: slog.New(slog.DiscardHandler),
		Peer: func(subject string) string { return strings.Split(subject, ".")[1] },
		OnReport: func(_ context.Context, _ string, r wire.Report) wire.ReportReply {
			if r.Status != nil {
				entered <- struct{}{}
				<-release
			}
			mu.Lock()
			defer mu.Unlock()
			worked++
			return wire.ReportReply{V: wire.Version, Want: wire.Rev{Inc: "worked", N: r.To.N}}
		},
		TryReport: func(_ string, r wire.Report) (wire.ReportReply, bool) {
			mu.Lock()
			defer mu.Unlock()
			tried++
			return wire.ReportReply{V: wire.Version, Want: wire.Rev{Inc: "tried", N: r.To.N}}, may
		},
		Desired: func(string) (Desired, bool) { return Desired{}, false },
	}
	stop, err := u.Serve("w.*.report", "w.*.fetch")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	ask := func(r wire.Report) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = peers.Request(t.Context(), "w.w1.report", b); err != nil {
			t.Fatal(err)
		}
		var reply wire.ReportReply
		if err := json.Unmarshal(b, &reply); err != nil {
			t.Fatal(err)
		}
		return reply.Want.Inc
	}
	if by := ask(wire.Report{V: wire.Version, Next: 10_000}); by != "tried" {
		t.Errorf("a plain report was %s", by)
	}
	if by := ask(wire.Report{V: wire.Version + 1}); by != "" {
		t.Errorf("a report of another version was %s", by)
	}
	mu.Lock()
	may = false
	mu.Unlock()
	if by := ask(wire.Report{V: wire.Version}); by != "worked" {
		t.Errorf("a report for which there was no time was %s", by)
	}
	mu.Lock()
	may = true
	before := tried
	mu.Unlock()
	var one, two string
	var both sync.WaitGroup
	both.Go(func() { one = ask(wire.Report{V: wire.Version, Status: json.RawMessage(`{}`)}) })
	<-entered
	both.Go(func() { two = ask(wire.Report{V: wire.Version}) })
	synctest.Wait() // it has come while somebody works for the same peer
	release <- struct{}{}
	both.Wait()
	mu.Lock()
	defer mu.Unlock()
	if one != "worked" || two != "worked" || tried != before {
		t.Errorf("the one before was %s, the one while somebody worked %s; tried %d times", one, two, tried-before)
	}
}
