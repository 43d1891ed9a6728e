package peer

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Times of the choice of a path.
const (
	// askAgain is when the other side is asked for an answer over the data path,
	// after something was sent that nothing came back for; WireGuard itself answers
	// what has no other answer only after ten seconds.
	askAgain = time.Second
	// askMore is when an unanswered question is repeated: a line that loses half of what
	// is sent loses three of four questions or their answers.
	askMore = 250 * time.Millisecond
	// deadAfter is how long that may last until a path counts as gone.
	deadAfter = 3 * time.Second
	// A path that was given up and answers at the same endpoint within flap was only
	// bad: it gets twice the time from then on, until it has lasted for calm.
	maxSilence = 12 * time.Second
	flap       = 20 * time.Second
	calm       = 2 * time.Minute
	// fresh is how long a relay's way that has not worked yet is waited for: WireGuard
	// sends a handshake every five seconds.
	fresh = 6 * time.Second
	// stale is the silence after which a peer's session counts as dead, too. A restart is
	// discovered earlier, by an offer.
	stale = 4 * deadAfter
	// settle is how long a direct path has to last before the relay's is given up.
	settle = time.Second
	// idleAfter is how long a peer that nobody wants may have no traffic.
	idleAfter = 10 * time.Minute
	// A window with less than windowBytes is no traffic: keepalives, handshakes and
	// questions are not.
	window      = time.Minute
	windowBytes = 4096

	firstTry, slowestTry  = time.Second, 5 * time.Minute
	firstAsk, slowestAsk  = time.Second, 10 * time.Second
	firstOffer, slowOffer = 2 * time.Second, 5 * time.Minute
	// A path on which large packets did not arrive is tried so often, with this pause
	// at first.
	maxWidths                = 5
	firstWidth, slowestWidth = 3 * time.Second, time.Minute
	// For a while offers are not rarer than soonOffer: over a bad line most fail.
	soonOffer, soonOffers = 15 * time.Second, 8

	lookFast, look, lookAt = 200 * time.Millisecond, time.Second, 5 * time.Second
)

// seen is what the device says of a peer.
type seen struct {
	endpoint  netip.AddrPort
	handshake time.Time
	rx, tx    uint64
}

// retry is something that is tried again with back-off.
type retry struct {
	n    int
	next time.Time
}

func (r *retry) due(now time.Time) bool { return !now.Before(r.next) }

// tried sets the time of the next try: twice as long each time, spread by a half,
// so that two sides that try alike do not do so in step for ever.
func (r *retry) tried(now time.Time, first, slowest time.Duration, seed uint64) {
	d := min(first<<min(r.n, 20), slowest)
	rng := rand.New(rand.NewPCG(seed, uint64(r.n)))
	r.next = now.Add(d*3/4 + time.Duration(rng.Int64N(int64(d/2)+1)))
	r.n++
}

// path is what is known of the way to one peer. Its methods decide; they do
// nothing and know no clock.
type path struct {
	kind  string // wire.PathDirect, PathRelay, PathNone
	since time.Time
	// direct and relay are where the peer was reached each way; zero: never.
	direct, relay netip.AddrPort
	paused        bool      // the relay was told that its way is not needed
	got           time.Time // when the relay last named its way

	offered bool      // keys were exchanged
	met     time.Time // when that was last
	trying  bool      // a round of direct tries is under way; endpoints mean nothing
	// stirred is the endpoint when something came during the round.
	stirred netip.AddrPort
	asking  bool // the relay is being asked
	// silenceLimit is how long silence may last, 0 is deadAfter; was is the endpoint that
	// was given up last.
	silenceLimit time.Duration
	was          netip.AddrPort
	seed         uint64

	rx, tx   uint64
	lastSeen time.Time // when something last came
	silent   time.Time // since when what was sent has had no answer; zero: it has
	ask      time.Time // of the next question
	tries    retry     // rounds of direct tries
	asks     retry     // of the relay for a way
	offers   retry
	wanted   time.Time // when somebody last wanted the peer
	traffic  time.Time // the end of the last window with traffic
	from     time.Time // begin of the window
	bytes    uint64    // in it
}

func newPath(now time.Time, seed uint64) path {
	return path{kind: wire.PathNone, since: now, seed: seed, wanted: now, traffic: now, from: now}
}

// todo is what is to be done about a path.
type todo struct {
	offer, try, channel, pause, question, drop bool
	// use is the endpoint to set; zero: none.
	use netip.AddrPort
	// next is when to look again at the latest.
	next time.Duration
}

func (p *path) become(kind string, now time.Time) {
	if p.kind != kind {
		p.kind, p.since = kind, now
	}
}

// lost takes the path for gone: every way is worth a try at once.
func (p *path) lost(now time.Time) {
	p.was = p.endpoint(p.kind)
	p.become(wire.PathNone, now)
	p.tries, p.asks = retry{}, retry{}
	// The other side may have restarted and forgotten this one.
	p.offers = retry{next: now.Add(deadAfter)}
	p.silent = time.Time{}
}

// back is the relay's path, to which packets return between tries of others; zero if none works
// or may work soon.
func (p *path) back(now time.Time) netip.AddrPort {
	if p.relay.IsValid() && !p.paused && (p.kind == wire.PathRelay || now.Sub(p.got) < fresh) {
		return p.relay
	}
	return netip.AddrPort{}
}

// unheard is how long there has been no sign of the other side.
func (p *path) unheard(now time.Time) time.Duration {
	d := now.Sub(p.lastSeen)
	if p.kind == wire.PathNone {
		d = min(d, now.Sub(p.met))
	}
	return d
}

// step decides from what the device says. hasRelay: there is one to ask.
func (p *path) step(now time.Time, s seen, hasRelay bool) todo {
	var d todo
	p.look(now, s, &d)
	if now.Sub(p.wanted) > idleAfter && now.Sub(p.traffic) > idleAfter {
		d.drop = true
		return d
	}
	if !p.silent.IsZero() && now.Sub(p.silent) >= askAgain && !now.Before(p.ask) {
		d.question, p.ask = true, now.Add(askMore)
		if p.kind == wire.PathNone && now.Sub(p.since) > flap {
			p.ask = now.Add(askAgain)
		}
	}
	if p.kind != wire.PathNone && now.Sub(p.since) > calm {
		p.silenceLimit = 0
	}
	if !p.silent.IsZero() && now.Sub(p.silent) >= max(p.silenceLimit, deadAfter) && p.kind != wire.PathNone {
		p.lost(now)
	}
	switch p.kind {
	case wire.PathDirect:
		if p.relay.IsValid() && !p.paused && now.Sub(p.since) >= settle {
			d.pause, p.paused = true, true
		}
	case wire.PathRelay:
		d.try = p.mayTry(now)
	default:
		if p.offers.due(now) {
			d.offer = true
			slowest := slowOffer
			if p.offers.n < soonOffers {
				slowest = soonOffer
			}
			p.offers.tried(now, firstOffer, slowest, p.seed)
		}
		if p.offered && hasRelay && !p.asking && p.asks.due(now) {
			d.channel, p.asking = true, true
			p.asks.tried(now, firstAsk, slowestAsk, p.seed)
		}
		d.try = p.mayTry(now)
	}
	d.next = p.pace(now)
	return d
}

// look takes in what has changed at the device.
func (p *path) look(now time.Time, s seen, d *todo) {
	moved, sent := s.rx != p.rx, s.tx > p.tx
	p.bytes += s.rx - min(p.rx, s.rx) + s.tx - min(p.tx, s.tx)
	p.rx, p.tx = s.rx, s.tx
	if now.Sub(p.from) >= window {
		if p.bytes > windowBytes {
			p.traffic = now
		}
		p.from, p.bytes = now, 0
	}
	switch {
	case moved:
		p.lastSeen, p.silent = now, time.Time{}
	case sent && p.silent.IsZero():
		p.silent = now
	}
	if !moved || !s.endpoint.IsValid() {
		return
	}
	if p.trying {
		p.stirred = s.endpoint
		return
	}
	// WireGuard sends to where the last packet that it could verify came from.
	if s.endpoint != p.relay {
		p.direct = s.endpoint
		p.reached(wire.PathDirect, now)
		return
	}
	if p.kind == wire.PathDirect {
		// A straggler of the relay turned it round; who means it says so there.
		d.use = p.direct
		return
	}
	p.reached(wire.PathRelay, now)
}

// reached notes that the other side has answered.
func (p *path) reached(kind string, now time.Time) {
	if p.kind == kind {
		return
	}
	if at := p.endpoint(kind); p.kind == wire.PathNone && at.IsValid() && at == p.was && now.Sub(p.since) < flap {
		p.silenceLimit = min(2*max(p.silenceLimit, deadAfter), maxSilence)
	}
	p.become(kind, now)
	p.asks, p.offers = retry{}, retry{}
	if kind == wire.PathRelay && p.tries.n <= 2 { // with a session, a try succeeds sooner
		p.tries = retry{next: now}
	}
	if kind == wire.PathDirect {
		p.tries = retry{}
		p.paused = false
	}
}

// endpoint of a kind of path.
func (p *path) endpoint(kind string) netip.AddrPort {
	if kind == wire.PathRelay {
		return p.relay
	}
	return p.direct
}

func (p *path) mayTry(now time.Time) bool {
	if !p.offered || p.trying || !p.tries.due(now) {
		return false
	}
	p.trying, p.stirred = true, netip.AddrPort{}
	return true
}

// triedDirectly notes the end of a round: the endpoint that answered, or zero.
func (p *path) triedDirectly(now time.Time, at netip.AddrPort) {
	p.trying = false
	slowest := slowestTry
	if p.kind == wire.PathNone {
		slowest = 15 * time.Second
	}
	p.tries.tried(now, firstTry, slowest, p.seed)
	if at.IsValid() {
		p.direct, p.lastSeen, p.silent = at, now, time.Time{}
		p.reached(wire.PathDirect, now)
	} else if p.kind == wire.PathNone && p.relay.IsValid() && p.stirred == p.relay {
		p.reached(wire.PathRelay, now)
	}
}

// gotChannel notes where the relay's way begins, and says whether to use it now.
// invited: the other side asked for it, which it does when it does not hear this
// one.
func (p *path) gotChannel(now time.Time, at netip.AddrPort, invited bool) (use bool) {
	p.relay, p.got, p.asking, p.paused = at, now, false, false
	if p.kind == wire.PathDirect {
		if !invited || now.Sub(p.since) < deadAfter {
			return false // both have found each other meanwhile
		}
		p.lost(now)
		p.asks.next = now.Add(deadAfter)
	}
	return true
}

// pace is how soon to look again.
func (p *path) pace(now time.Time) time.Duration {
	switch {
	case p.trying || p.kind == wire.PathNone || now.Sub(p.since) < 5*time.Second:
		return lookFast
	case !p.silent.IsZero() || p.bytes > windowBytes || now.Sub(p.traffic) < 2*window:
		return look
	}
	return lookAt
}
