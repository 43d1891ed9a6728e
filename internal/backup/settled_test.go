package backup

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// What a recovery has settled begins no other one, and what it cannot know of does.
func TestWhatIsSettledStaysSo(t *testing.T) {
	now := time.Unix(1000, 0)
	peers := []string{"edge", "fog", "mist"}
	from := wire.Era{ID: "own", First: 60, At: 900}
	proof := func(peer, era string, n uint64, twin bool) Proof {
		return Proof{Peer: peer, By: "cluster " + peer, Has: wire.Rev{Inc: era, N: n}, From: from, Twin: twin}
	}
	mark := (*Mark)(nil).Behind(nil, proof("edge", "lost", 80, false), peers, now)
	if mark == nil || !mark.At.Equal(from.Began()) || len(mark.Asked) != 0 {
		t.Fatalf("%+v", mark)
	}
	// Edge has said what it holds; fog had seen nothing more; nobody waits for mist.
	past := (*Settled)(nil).Heard("edge", wire.Rev{Inc: "lost", N: 80}).Heard("fog", wire.Rev{}).Without("mist",
		wire.Rev{})
	mark = mark.Heard("edge", now).Heard("fog", now).Heard("mist", now)
	if m := mark.Behind(past, proof("mist", "lost", 70, false), peers, now); m != nil {
		t.Errorf("it is asked although somebody said that it need not be: %+v", m)
	}
	if m := mark.Behind(past, proof("edge", "lost", 81, true), peers, now); m == nil || !m.Asked["edge"].IsZero() ||
		m.Asked["fog"].IsZero() || m.Twin.IsZero() {
		t.Errorf("another process told it more: %+v", m)
	}
	past = past.Ended(mark, 100)
	for name, p := range map[string]Proof{
		"the same again":                      proof("edge", "lost", 80, false),
		"what it was told before":             proof("edge", "lost", 50, false),
		"the same, while this one tells it":   proof("edge", "lost", 80, true),
		"what somebody else proved":           proof("fog", "lost", 79, false),
		"more of an era that is settled":      proof("edge", "lost", 500, false),
		"an era before that one":              proof("edge", "earlier", 75, false),
		"who was not heard, of any era":       proof("mist", "other", 5000, false),
		"who joined in the era that was lost": proof("late", "lost", 200, false),
	} {
		if m := (*Mark)(nil).Behind(past, p, peers, now); m != nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	// A copy of what the store was after that is another matter.
	if m := (*Mark)(nil).Behind(past, proof("edge", "next", 101, false), peers, now); m == nil || len(m.Asked) != 0 {
		t.Errorf("a second copy is not noticed: %+v", m)
	}
	if m := (*Mark)(nil).Behind(past.Back(func(string) bool { return true }), proof("mist", "next", 101, false), peers,
		now); m == nil {
		t.Error("a second copy is not noticed of who was away the first time")
	}
	if past.Back(func(string) bool { return false }) != nil {
		t.Error("it changes where nobody is back")
	}
	// Another process that is at work tells one cluster: that is asked alone, and what was
	// written since the copy was made counts.
	m := (*Mark)(nil).Behind(past, proof("edge", "lost", 90, true), peers, now)
	if m == nil || len(m.Asked) != 2 || !m.Asked["edge"].IsZero() || !m.At.Equal(mark.At) {
		t.Errorf("%+v", m)
	}
}
