package distance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/wire"
)

// line is a Prober over paths of given lengths; 0 does not answer.
type line struct {
	mu     sync.Mutex
	rtt    map[string]time.Duration
	others map[string]*Meter
	asked  map[string]int
	all    int
}

func newLine() *line {
	return &line{rtt: map[string]time.Duration{}, others: map[string]*Meter{}, asked: map[string]int{}}
}

func (l *line) Measure(ctx context.Context, p Peer, hello []byte) (time.Duration, []byte, error) {
	l.mu.Lock()
	rtt, other := l.rtt[p.Key()], l.others[p.Key()]
	l.asked[p.Key()]++
	l.all++
	l.mu.Unlock()
	if rtt == 0 {
		<-ctx.Done()
		return 0, nil, errors.New("no answer")
	}
	time.Sleep(rtt) // of the bubble: it takes no time
	if other == nil {
		return rtt, nil, nil
	}
	return rtt, other.Told("edge", "me", hello), nil
}

func (l *line) peer(name string, rtt time.Duration) Peer {
	p := Peer{Cluster: "edge", Worker: name, Address: name}
	l.rtt[p.Key()] = rtt
	l.others[p.Key()] = New(Options{Seed: uint64(len(l.others))})
	return p
}

func (l *line) total() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all
}

func (l *line) count(name string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked["edge/"+name]
}

// running runs a meter in a bubble, and ends it.
func running(t *testing.T, o Options, during func(m *Meter)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := New(o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); m.Run(ctx) }()
		during(m)
		cancel()
		<-done
	})
}

func TestMeasuredAtOnceThenKeptFreshThenNotAtAll(t *testing.T) {
	l := newLine()
	peers := []Peer{l.peer("a", 5*time.Millisecond), l.peer("b", 20*time.Millisecond), l.peer("dead", 0)}
	running(t, Options{Prober: l, Seed: 1}, func(m *Meter) {
		time.Sleep(time.Hour)
		if l.total() != 0 {
			t.Fatal("somebody was measured although nobody wanted it")
		}
		m.Want("app.web", peers)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if d := m.Distance("edge", "a"); !d.Measured || d.RTT != 5*time.Millisecond {
			t.Errorf("a after 100 ms: %+v", d)
		}
		for range 60 { // it is used for ten minutes
			time.Sleep(10 * time.Second)
			m.Want("app.web", peers)
			if d := m.Distance("edge", "b"); !d.Measured {
				t.Fatalf("b is not fresh: %+v", d)
			}
		}
		if n := l.count("a"); n < 10 || n > 70 {
			t.Errorf("a was measured %d times in ten minutes", n)
		}
		if n := l.count("dead"); n == 0 || n > 12 {
			t.Errorf("one that does not answer was measured %d times in ten minutes", n)
		}
		if k := m.Known("edge", "dead"); k.Distance.Known || k.Failures == 0 || k.Why == "" {
			t.Errorf("of one that does not answer: %+v", k)
		}
		time.Sleep(2 * wantedFor)
		before := l.total()
		time.Sleep(24 * time.Hour)
		if n := l.total(); n != before {
			t.Errorf("%d measurements for nobody", n-before)
		}
	})
}

// All are measured at once, and once more when that does not disturb itself any more.
func TestSecondLookAtAll(t *testing.T) {
	l := newLine()
	var peers []Peer
	for i := range coord.PerService {
		peers = append(peers, l.peer(fmt.Sprint("w", i), time.Duration(i+1)*time.Millisecond))
	}
	running(t, Options{Prober: l, Seed: 1}, func(m *Meter) {
		m.Want("app.web", peers)
		time.Sleep(100 * time.Millisecond)
		if n := l.total(); n != len(peers) {
			t.Errorf("%d measurements at once, want %d", n, len(peers))
		}
		time.Sleep(coord.Moving)
		if n := l.total(); n != 2*len(peers) {
			t.Errorf("%d measurements after %v, want %d", n, coord.Moving, 2*len(peers))
		}
		time.Sleep(5 * coord.Moving)
		if n := l.total(); n < 2*len(peers)+4 || n > 2*len(peers)+6 {
			t.Errorf("%d measurements five seconds later: one a second is expected", n)
		}
	})
}

func TestManyWorkersOfOneService(t *testing.T) {
	l := newLine()
	var peers []Peer
	for i := range 100 {
		peers = append(peers, l.peer(fmt.Sprint("w", i), time.Duration(i+1)*time.Millisecond))
	}
	running(t, Options{Prober: l, Seed: 1}, func(m *Meter) {
		begin := time.Now()
		for time.Since(begin) < 5*time.Minute {
			m.Want("app.web", peers)
			time.Sleep(10 * time.Second)
		}
		for _, near := range []string{"w0", "w1", "w2"} {
			if d := m.Distance("edge", near); !d.Measured {
				t.Errorf("%s, one of the nearest, is not measured: %+v", near, d)
			}
		}
		// A second is enough for one while the place moves; and the first ones.
		if l.total() > 5*60*coord.PerService/4+coord.PerService {
			t.Errorf("%d measurements in five minutes", l.total())
		}
	})
}

func TestKnowledgeOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "distances.json")
	l := newLine()
	peers := []Peer{l.peer("a", 5*time.Millisecond)}
	running(t, Options{Prober: l, Path: path, Seed: 1}, func(m *Meter) {
		m.Want("app.web", peers)
		time.Sleep(30 * time.Second)
		if _, err := os.Stat(path); err == nil {
			t.Error("the file was written while measuring")
		}
	})
	running(t, Options{Prober: l, Path: path, Seed: 1}, func(m *Meter) {
		if d := m.Distance("edge", "a"); !d.Known || m.Error() >= 1.5 {
			t.Errorf("after a restart: %+v, error %v", d, m.Error())
		}
	})
	for _, damage := range []string{"", "{", `{"v":9}`, `{"v":1,"own":{"next":-5},"peers":{"x":null}}`} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if m := New(Options{Path: path, Seed: 1}); m.Distance("edge", "a").Known || len(m.Hello()) == 0 {
			t.Errorf("%q was believed", damage)
		}
	}
}

func TestWhatOthersSayIsChecked(t *testing.T) {
	m := New(Options{Seed: 1})
	for _, said := range []string{"", "x", "{}", `{"v":1,"point":{"height":-1}}`, `{"v":1,"point":{"vec":[1e300]}}`} {
		if m.Told("edge", "x", []byte(said)) == nil || m.Distance("edge", "x").Known || len(m.table.Peers) != 0 {
			t.Errorf("%q was believed", said)
		}
	}
	if len(m.Hello()) > MaxHello {
		t.Errorf("a hello has %d bytes", len(m.Hello()))
	}
	m.Told("edge", "x", New(Options{Seed: 2}).Hello())
	if len(m.table.Peers) != 1 {
		t.Error("a valid hello was not taken")
	}
}

// Of a large service whose cluster says where its workers are, a worker measures some to find
// its own place, and then finds the nearest by few measurements.
func TestPlacesSaveMeasurements(t *testing.T) {
	l := newLine()
	var peers []Peer
	r := wire.Route{}
	for i := range 200 {
		far := time.Duration(1+i) * time.Millisecond
		peers = append(peers, l.peer(fmt.Sprint("w", i), far))
		at := coord.Point{Vec: [coord.Dimensions]float64{far.Seconds()}, Height: 1e-5, Error: 0.1}
		l.others[peers[i].Key()].table.Own.Point = at
		r.Endpoints = append(r.Endpoints, wire.Endpoint{Cluster: "edge", Worker: peers[i].Worker, At: at.Short()})
	}
	running(t, Options{Prober: l, Seed: 1}, func(m *Meter) {
		m.Placed([]wire.Route{r})
		m.Want("app.web", peers)
		time.Sleep(30 * time.Second)
		near := 0
		for _, p := range peers[:5] {
			if m.Distance(p.Cluster, p.Worker).Measured {
				near++
			}
		}
		measured := 0
		for _, p := range peers {
			if l.count(p.Worker) > 0 {
				measured++
			}
		}
		if near < 4 || measured > coord.AtOnce+2*coord.PerService {
			t.Errorf("%d of the 5 nearest measured, %d in all", near, measured)
		}
	})
}
