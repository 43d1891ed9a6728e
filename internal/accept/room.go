package accept

import (
	"net/netip"
	"sync"
)

// Room bounds how many connections a listener holds, so that who has not said who it is
// cannot keep out who can:
//
//   - At most half of the places are for connections without credentials. One more takes
//     the place of the oldest of the source that holds most of them. So the time that a
//     handshake may take gets shorter as the pressure grows, for those first who cause it.
//   - A connection with credentials keeps its place.
//   - One source holds at most half of all places.
//
// A full Room of connections with credentials lets nobody in.
type Room struct {
	most, unknown, each int

	mu     sync.Mutex // guards below
	places map[*Place]struct{}
	by     map[netip.Addr]*source
	count  int // of places without credentials
	next   uint64
	free   chan struct{} // closed when a place becomes free, nil while nobody waits
}

// source is what connections of one address hold.
type source struct {
	all     int
	unknown []*Place // without credentials, oldest first
}

// Place of a connection.
type Place struct {
	room  *Room
	from  netip.Addr
	cut   func()
	n     uint64 // in the order of arrival
	known bool
}

// NewRoom has this many places, of which one source holds each at most.
func NewRoom(most, each int) *Room {
	return &Room{most: most, unknown: max(1, most/2), each: each, places: map[*Place]struct{}{},
		by: map[netip.Addr]*source{}}
}

// Full is closed when a connection could enter; nil where one can now.
func (r *Room) Full() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.places) < r.most || r.count > 0 {
		return nil
	}
	if r.free == nil {
		r.free = make(chan struct{})
	}
	return r.free
}

// Enter takes a place for a connection from a source; nil where there is none. cut ends
// the connection if another one takes its place. It is called by who enters, once and
// without a lock.
func (r *Room) Enter(from netip.Addr, cut func()) *Place {
	r.mu.Lock()
	s := r.by[from]
	if s == nil {
		s = &source{}
	}
	var out *Place
	switch {
	case s.all >= r.each:
		if out = s.oldest(); out == nil {
			r.mu.Unlock()
			return nil
		}
	case r.count >= r.unknown, len(r.places) >= r.most:
		if out = r.longest(); out == nil {
			r.mu.Unlock()
			return nil
		}
	}
	if out != nil {
		r.leave(out)
	}
	r.next++
	p := &Place{room: r, from: from, cut: cut, n: r.next}
	r.places[p], r.by[from] = struct{}{}, s
	r.count++
	s.all++
	s.unknown = append(s.unknown, p)
	r.mu.Unlock()
	if out != nil {
		out.cut()
	}
	return p
}

func (s *source) oldest() *Place {
	if len(s.unknown) == 0 {
		return nil
	}
	return s.unknown[0]
}

// longest is the oldest without credentials of the source that has most of them.
func (r *Room) longest() (out *Place) {
	most := 0
	for _, s := range r.by {
		if p := s.oldest(); p != nil && (len(s.unknown) > most || len(s.unknown) == most && p.n < out.n) {
			out, most = p, len(s.unknown)
		}
	}
	return out
}

// Known says that the connection has shown credentials. It reports whether it still had
// its place.
func (p *Place) Known() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	if _, here := p.room.places[p]; !here {
		return false
	}
	p.room.settle(p)
	return true
}

// settle takes a place out of those without credentials.
func (r *Room) settle(p *Place) {
	if p.known {
		return
	}
	p.known = true
	r.count--
	s := r.by[p.from]
	for i, q := range s.unknown {
		if q == p {
			s.unknown = append(s.unknown[:i], s.unknown[i+1:]...)
			break
		}
	}
}

// Leave gives the place back. Once more does nothing.
func (p *Place) Leave() {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	p.room.leave(p)
}

func (r *Room) leave(p *Place) {
	if _, here := r.places[p]; !here {
		return
	}
	r.settle(p)
	delete(r.places, p)
	s := r.by[p.from]
	if s.all--; s.all == 0 {
		delete(r.by, p.from)
	}
	if r.free != nil {
		close(r.free)
		r.free = nil
	}
}

// Held is how many places are taken.
func (r *Room) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.places)
}
