package peer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

var (
	direct = netip.MustParseAddrPort("192.0.2.1:8476")
	other  = netip.MustParseAddrPort("192.0.2.2:8476")
	relayA = netip.MustParseAddrPort("198.51.100.1:40000")
)

// clockwork steps a path through time.
type clockwork struct {
	*testing.T
	path
	seen
	now time.Time
}

func start(t *testing.T) *clockwork {
	c := &clockwork{T: t, now: time.Unix(1e9, 0)}
	c.path = newPath(c.now, 1)
	c.offered = true
	c.offers.next = c.now.Add(time.Hour)
	return c
}

func (c *clockwork) after(d time.Duration) todo {
	c.now = c.now.Add(d)
	return c.step(c.now, c.seen, true)
}

// hears is a packet of the peer from an endpoint.
func (c *clockwork) hears(from netip.AddrPort) {
	c.seen.endpoint = from
	c.seen.rx += 100
}

func (c *clockwork) is(kind string) {
	c.Helper()
	if c.kind != kind {
		c.Fatalf("the path is %s, want %s", c.kind, kind)
	}
}

func TestDirectIsTriedAndTheRelayIsAsked(t *testing.T) {
	c := start(t)
	d := c.after(0)
	if !d.try || !d.channel {
		t.Fatalf("%+v", d)
	}
	if d := c.after(time.Minute); d.try || d.channel {
		t.Fatalf("what is under way is begun again: %+v", d)
	}
	if !c.gotChannel(c.now, relayA, false) {
		t.Fatal("the relay's way is not used while there is none")
	}
	c.triedDirectly(c.now, netip.AddrPort{})
	c.hears(relayA)
	if !c.after(time.Second).try {
		t.Error("no direct way is tried now that there is a session")
	}
	c.triedDirectly(c.now, netip.AddrPort{})
	c.is(wire.PathRelay)
	// Tries go on, ever more rarely, and five minutes are the longest pause.
	var pauses []time.Duration
	last := c.now
	for len(pauses) < 14 {
		c.hears(relayA)
		if d := c.after(time.Second); d.try {
			pauses = append(pauses, c.now.Sub(last))
			last = c.now
			c.triedDirectly(c.now, netip.AddrPort{})
		}
	}
	if longest := pauses[len(pauses)-1]; longest < 3*time.Minute || longest > 7*time.Minute {
		t.Errorf("pauses %v", pauses)
	}
	c.is(wire.PathRelay)
	c.tries.next = c.now
	c.after(0)
	c.triedDirectly(c.now, direct)
	c.is(wire.PathDirect)
	if d := c.after(500 * time.Millisecond); d.pause {
		t.Error("the relay's way is given up at once")
	}
	if d := c.after(settle); !d.pause {
		t.Error("the relay's way is kept")
	}
	if d := c.after(settle); d.pause {
		t.Error("it is given up twice")
	}
}

func TestStragglerOfTheRelayDoesNotTurnADirectPathRound(t *testing.T) {
	c := start(t)
	c.gotChannel(c.now, relayA, false)
	c.triedDirectly(c.now, direct)
	c.hears(relayA)
	if d := c.after(time.Second); d.use != direct {
		t.Fatalf("%+v", d)
	}
	c.is(wire.PathDirect)
	// The other side has moved: that is direct, too.
	c.hears(other)
	c.after(time.Second)
	if c.direct != other {
		t.Errorf("direct is %s", c.direct)
	}
}

func TestSilenceIsAskedAboutAndThenGivenUp(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.after(time.Minute)
	c.after(5 * time.Minute)
	if d := c.after(10 * time.Second); d.question || d.next != lookAt {
		t.Fatalf("nothing was sent, and yet %+v", d)
	}
	c.seen.tx += 100
	c.after(0)
	questions := 0
	for c.kind == wire.PathDirect {
		d := c.after(200 * time.Millisecond)
		if d.question {
			questions++
			c.seen.tx += 100
		}
		if questions > 20 {
			t.Fatal("the path is never given up")
		}
	}
	if questions < 4 || questions > 10 {
		t.Errorf("%d questions", questions)
	}
	c.is(wire.PathNone)
	if !c.trying && !c.after(0).try {
		t.Error("nothing is tried")
	}
}

func TestAnsweredQuestionKeepsThePath(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.seen.endpoint = direct
	for range 100 {
		c.seen.tx += 100
		if c.after(500 * time.Millisecond).question {
			c.hears(direct)
		}
	}
	c.is(wire.PathDirect)
}

func TestInvitationMeansThatTheOtherDoesNotHear(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.after(time.Second)
	if c.gotChannel(c.now, relayA, true) {
		t.Error("both have found each other just now: the invitation is old")
	}
	c.after(deadAfter)
	if !c.gotChannel(c.now, relayA, true) {
		t.Error("the other does not hear this side, and it goes on as before")
	}
	c.is(wire.PathNone)
}

// A path that comes back where it was is only bad, and gets more time.
func TestBadLineGetsMoreTime(t *testing.T) {
	c := start(t)
	silence := func() (d time.Duration) {
		c.hears(direct)
		c.after(0)
		c.is(wire.PathDirect)
		c.seen.tx += 100
		c.after(0)
		for begin := c.now; c.kind == wire.PathDirect; d = c.now.Sub(begin) {
			c.after(200 * time.Millisecond)
			if c.trying {
				c.triedDirectly(c.now, netip.AddrPort{})
			}
		}
		return d
	}
	first, second, third, fourth := silence(), silence(), silence(), silence()
	if first > deadAfter+time.Second || second < 2*deadAfter || third < maxSilence || fourth > maxSilence+time.Second {
		t.Errorf("silence was borne for %s, %s, %s, %s", first, second, third, fourth)
	}
	c.hears(direct)
	c.after(0)
	c.after(calm + time.Second)
	if again := silence(); again > deadAfter+time.Second {
		t.Errorf("after a calm time silence was borne for %s", again)
	}
}

func TestDeadRelaysWayIsNoWayBack(t *testing.T) {
	c := start(t)
	c.gotChannel(c.now, relayA, false)
	if c.back(c.now) != relayA {
		t.Error("a way that may work soon is none")
	}
	c.hears(relayA)
	c.after(time.Second)
	c.is(wire.PathRelay)
	c.seen.tx += 100
	for range 20 {
		c.after(time.Second)
	}
	c.is(wire.PathNone)
	if back := c.back(c.now); back.IsValid() {
		t.Errorf("between tries packets go to %s, where nobody answers", back)
	}
	c.gotChannel(c.now, other, false)
	if c.back(c.now) != other {
		t.Error("the relay's new way is none")
	}
}

func TestWhatComesDuringARoundCounts(t *testing.T) {
	c := start(t)
	c.gotChannel(c.now, relayA, false)
	if !c.after(0).try {
		t.Fatal("nothing is tried")
	}
	c.hears(relayA)
	c.after(200 * time.Millisecond)
	c.is(wire.PathNone) // which endpoint was ours is not known now
	c.after(200 * time.Millisecond)
	c.triedDirectly(c.now, netip.AddrPort{})
	c.is(wire.PathRelay)
}

func TestWhoMayHaveRestartedGetsAnOfferSoon(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.after(time.Minute)
	c.seen.tx += 100
	begin := c.now
	for !c.after(200 * time.Millisecond).offer {
		if c.now.Sub(begin) > 3*deadAfter {
			t.Fatal("no offer is made")
		}
	}
}

func TestIdlePeerIsDropped(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.seen.endpoint = direct
	for c.now.Before(time.Unix(1e9, 0).Add(2 * idleAfter)) {
		c.seen.rx, c.seen.tx = c.seen.rx+32, c.seen.tx+32 // a keepalive
		if c.after(25 * time.Second).drop {
			if gone := c.now.Sub(time.Unix(1e9, 0)); gone < idleAfter || gone > idleAfter+time.Minute {
				t.Fatalf("dropped after %s", gone)
			}
			return
		}
	}
	t.Fatal("an idle peer stays")
}

func TestTrafficKeepsAPeer(t *testing.T) {
	c := start(t)
	c.triedDirectly(c.now, direct)
	c.seen.endpoint = direct
	for range 100 {
		c.seen.rx += 10_000
		if c.after(25 * time.Second).drop {
			t.Fatal("a peer with traffic is dropped")
		}
	}
}
