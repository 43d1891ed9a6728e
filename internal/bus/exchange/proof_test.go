package exchange_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
)

// A lower side keeps the proof of what it has, however that came, and shows it to a new upper
// process, which learns from it that its store is an older copy.
func TestProofs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.put("to.w1.a", `1`) // of an upper side of before
		time.Sleep(11 * time.Second)
		synctest.Wait()
		proven := func(what string) {
			t.Helper()
			have, d := p.desired.Have(), p.upperDesired("w1")
			if want := d.Proof(have); have != d.Rev() || len(want) == 0 || string(p.desired.Proof()) != string(want) {
				t.Fatalf("%s: has %s with proof %q, want %s with %q", what, have, p.desired.Proof(), d.Rev(), want)
			}
		}
		p.mu.Lock()
		p.proves = true
		p.mu.Unlock()
		again := func() { // the link is back, to whoever is there now
			p.low.SetConnected(false)
			time.Sleep(time.Second)
			p.low.SetConnected(true)
			time.Sleep(15 * time.Second)
			synctest.Wait()
		}
		p.startUpper(p.store.Reopen())
		again()
		proven("what it had before there were proofs")
		copied, err := p.store.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		p.put("to.w1.b", `2`)
		p.nudge()
		synctest.Wait()
		proven("fetched")
		have := p.desired.Have()
		p.put("to.w1.c", `3`)
		p.notifier.Tell("w1", p.upperDesired("w1"), have)
		synctest.Wait()
		proven("brought by a nudge")
		p.mu.Lock()
		before := slices.Contains(p.ahead, true)
		p.ahead = nil
		p.mu.Unlock()
		p.startUpper(bustest.OpenMemStore(copied))
		again()
		p.mu.Lock()
		defer p.mu.Unlock()
		if before || len(p.ahead) == 0 || !p.ahead[0] {
			t.Errorf("an older copy is not told from the others: %v before, then %v", before, p.ahead)
		}
	})
}
