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
	"github.com/verge-edge/verge/internal/wire"
)

// A peer that asks without end, and is slow to be answered, keeps nobody else
// from being heard; of what it asked meanwhile the latest is worked on.
func TestOnePeerDoesNotHoldUpAnother(t *testing.T) {
	all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	hub := bus.NewMem()
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
func TestADeskKeepsSome(t *testing.T) {
	for _, keep := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			done := map[string]int{}
			var mu sync.Mutex
			d := newDesk(keep, func(_ context.Context, m bus.Msg) {
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
