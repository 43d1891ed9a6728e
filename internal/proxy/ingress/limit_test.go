package ingress

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_700_000_000, 0)

// Whatever a client does, in no stretch of time it gets more than burst and what its
// rate gives in that time; and one that asks no more often than that gets all.
func TestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.IntRange(1, 100).Draw(t, "rate"), rapid.IntRange(1, 50).Draw(t, "burst")
		l := NewLimit(rate, burst)
		me := netip.MustParseAddr("192.0.2.1")
		now := epoch
		var given []time.Time
		for _, pause := range rapid.SliceOfN(rapid.IntRange(0, 200), 1, 200).Draw(t, "pauses") {
			now = now.Add(time.Duration(pause) * time.Millisecond)
			wait, ok := l.Take(me, now)
			if ok {
				given = append(given, now)
				continue
			}
			if wait <= 0 {
				t.Fatalf("refused, to wait for %v", wait)
			}
			if _, early := l.Take(me, now.Add(wait-1)); early {
				t.Fatalf("given before the time that was said")
			}
			now = now.Add(wait)
			if _, late := l.Take(me, now); !late {
				t.Fatalf("refused at the time that was said")
			}
			given = append(given, now)
		}
		for i := range given {
			for j := i; j < len(given); j++ {
				most := float64(burst) + given[j].Sub(given[i]).Seconds()*float64(rate)
				if n := float64(j - i + 1); n > most+0.01*n {
					t.Fatalf("%g in %v, at most %g", n, given[j].Sub(given[i]), most)
				}
			}
		}
	})
}

func TestLimitIsOfEachClient(t *testing.T) {
	l := NewLimit(1, 2)
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for range 1000 {
		l.Take(a, epoch)
	}
	if wait, ok := l.Take(a, epoch); ok || wait != time.Second {
		t.Errorf("after a flood: %v, %v", wait, ok)
	}
	for range 2 {
		if _, ok := l.Take(b, epoch); !ok {
			t.Error("another client is refused too")
		}
	}
	if _, ok := l.Take(a, epoch.Add(time.Second)); !ok {
		t.Error("refusals cost it tokens")
	}
}

// No number of clients makes it grow, and none of them is refused for that.
func TestLimitIsBounded(t *testing.T) {
	l := NewLimit(1, 1)
	client := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 2 * MaxClients {
		if _, ok := l.Take(client(i), epoch); !ok {
			t.Fatalf("client %d is refused", i)
		}
	}
	if len(l.full) != MaxClients {
		t.Errorf("%d clients are remembered", len(l.full))
	}
	if _, ok := l.Take(client(0), epoch); ok {
		t.Error("a client that was remembered is forgotten")
	}
	later := epoch.Add(time.Minute)
	l.Take(client(-1), later)
	if len(l.full) != 1 {
		t.Errorf("%d clients are remembered although all of them may send again", len(l.full))
	}
}
