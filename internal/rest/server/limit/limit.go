// Package limit bounds how often something may be done from one address.
package limit

import (
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/verge-edge/verge/internal/accept"
)

// maxSources bounds how many addresses are told apart at a time.
const maxSources = 4096

// Sources limits how often something may be done from one address, so that one
// who does it all the time takes nothing away from others. It is safe for
// concurrent use.
type Sources struct {
	every rate.Limit // events a second, in the long run
	burst int
	most  int // sources that are told apart

	mu sync.Mutex
	// by source; those whose bucket is full again can be forgotten.
	by    map[netip.Addr]*rate.Limiter
	rest  *rate.Limiter // of all for whom there is no room
	swept time.Time
}

// NewSources allows every events a second in the long run, and burst at once.
func NewSources(every rate.Limit, burst int) *Sources {
	return &Sources{every: every, burst: burst, most: maxSources, by: map[netip.Addr]*rate.Limiter{},
		rest: rate.NewLimiter(every, burst)}
}

// Allow takes one from the bucket of an address (host:port or host).
func (s *Sources) Allow(addr string, now time.Time) bool { return s.bucket(addr, now).AllowN(now, 1) }

// Exhausted says whether the bucket of an address is empty, and takes nothing.
func (s *Sources) Exhausted(addr string, now time.Time) bool {
	return s.bucket(addr, now).TokensAt(now) < 1
}

func (s *Sources) bucket(addr string, now time.Time) *rate.Limiter {
	key := accept.Source(addr)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.by[key]; l != nil {
		return l
	}
	if len(s.by) >= s.most {
		s.sweep(now)
	}
	if len(s.by) >= s.most {
		return s.rest
	}
	l := rate.NewLimiter(s.every, s.burst)
	s.by[key] = l
	return l
}

// sweep forgets the sources that have not been heard of for a while, at most once
// a second, since it looks at all.
func (s *Sources) sweep(now time.Time) {
	if now.Sub(s.swept) < time.Second {
		return
	}
	s.swept = now
	for key, l := range s.by {
		if l.TokensAt(now) >= float64(s.burst) {
			delete(s.by, key)
		}
	}
}

// maxTrusted bounds the tokens that are remembered as good.
const maxTrusted = 1024

// Trusted remembers the hashes of tokens that were accepted lately, so that
// whoever guesses tokens from the same address cannot lock out those who have one.
type Trusted struct {
	mu     sync.Mutex
	hashes map[[sha256.Size]byte]struct{}
}

// Has says whether a token was accepted lately.
func (t *Trusted) Has(token string) bool {
	h := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.hashes[h]
	return ok
}

// Note remembers a good token, or forgets one that is good no more.
func (t *Trusted) Note(token string, good bool) {
	h := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	if !good {
		delete(t.hashes, h)
		return
	}
	if t.hashes == nil {
		t.hashes = map[[sha256.Size]byte]struct{}{}
	}
	if len(t.hashes) >= maxTrusted {
		clear(t.hashes)
	}
	t.hashes[h] = struct{}{}
}
