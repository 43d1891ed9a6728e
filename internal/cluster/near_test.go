// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/coord"
	"github.com/verge-edge/verge/internal/wire"
)

// earth is what the workers of a sim measure: round trips by pair, both ways, and where
// by Vivaldi they come to be.
type earth struct {
	s      *sim
	rtt    map[[2]string]time.Duration
	silent map[string]bool // who answers no question
	states map[string]coord.State
	asked  int
	users  map[string]string // which worker they are beside, by address
	pinged int
}

func newEarth(s *sim, rtt func(a, b string) time.Duration) *earth {
	e := &earth{s: s, rtt: map[[2]string]time.Duration{}, silent: map[string]bool{}, states: map[string]coord.State{}, users: map[string]string{}}
	for a := range s.fakes {
		e.states[a] = coord.NewState(uint64(len(e.states)) + 1)
		for b := range s.fakes {
			e.rtt[[2]string{a, b}] = rtt(a, b)
		}
	}
	return e
}

// apart is the distance of workers that are named by where they are on a line: w7 is at
// 7 ms.
func apart(a, b string) time.Duration {
	at := func(name string) (n int) {
		_, _ = fmt.Sscanf(name, "w%d", &n)
		return n
	}
	return max(time.Duration(max(at(a)-at(b), at(b)-at(a)))*time.Millisecond, 50*time.Microsecond)
}

// survey answers all that is asked at this moment.
func (e *earth) survey() {
	e.s.m.judgeUnmeasured(e.s.now)
	list, _ := e.s.m.survey(e.s.now)
	for _, q := range list {
		r, err := e.answer(q)
		e.s.m.learnNear(q, r, err, e.s.now)
	}
}

// answer is what a worker says to a question.
func (e *earth) answer(q question) (wire.Measured, error) {
	e.asked++
	r := wire.Measured{V: wire.Version}
	if e.silent[q.worker] {
		return r, errors.New("it does not answer")
	}
	for _, p := range q.ask.Peers {
		d := e.rtt[[2]string{q.worker, p.Worker}]
		if d == 0 {
			r.Peers = append(r.Peers, wire.MeasuredRTT{Why: "no answer"})
			continue
		}
		if next, err := e.states[q.worker].Step(e.states[p.Worker].Point, d); err == nil {
			e.states[q.worker] = next
		}
		r.Peers = append(r.Peers, wire.MeasuredRTT{RTT: api.Duration(d)})
	}
	for _, to := range q.ask.Targets {
		e.pinged++
		if beside := e.users[to]; beside != "" {
			r.Targets = append(r.Targets, wire.MeasuredRTT{RTT: api.Duration(apart(q.worker, beside)), By: "icmp"})
		} else {
			r.Targets = append(r.Targets, wire.MeasuredRTT{Why: "nobody there"})
		}
	}
	r.Own = wire.Coordinate(e.states[q.worker].Point)
	return r, nil
}

// live lets time pass, with a survey in each step.
func (e *earth) live(n int, d time.Duration) {
	for range n {
		e.s.m.lookNear(e.s.now)
		e.survey()
		e.s.tick(d)
	}
}

func nearTo(name string, most time.Duration) func(*api.Service) {
	return func(s *api.Service) {
		s.Scheduler = "ldp"
		s.Latency = append(s.Latency, api.Latency{To: name, Max: api.Duration(most)})
	}
}

func onWorker(name string) func(*api.Service) {
	return func(s *api.Service) { s.Affinity.Labels = map[string]string{"name": name} }
}

func newNearSim(t *testing.T, workers ...string) (*sim, *earth) {
	s := newSim(t, workers...)
	for _, name := range workers {
		s.know(name, func(i *wire.WorkerInfo) { i.Labels = map[string]string{"name": name} })
	}
	return s, newEarth(s, apart)
}

func TestAnInstanceIsPlacedNearAService(t *testing.T) {
	for _, first := range []string{"web", "api"} {
		s, e := newNearSim(t, "w0", "w5", "w20", "w25", "w60")
		shares := map[string]func(){
			"web": func() { s.share("web", 1, onWorker("w20")) },
			"api": func() { s.share("api", 2, nearTo("web", 6*time.Millisecond)) },
		}
		shares[first]()
		e.live(2, time.Second)
		for name, share := range shares {
			if name != first {
				share()
			}
		}
		e.live(5, time.Second)
		if on := s.on("api"); on["w20"] != 1 || on["w25"] != 1 {
			t.Errorf("%s first: api is on %v, want w20 and w25", first, on)
		}
		d := s.m.begin().thresholds(s.m.Shares["app.api"], s.now)
		if len(d) != 1 || len(d[0].Targets) != 1 || d[0].Targets[0].Worker != "w20" || d[0].Unknown != "" {
			t.Errorf("%+v", d)
		}
	}
}

// Nothing is asked where nothing must be near.
func TestNobodyIsAskedWithoutNeed(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	s.share("web", 1, nil)
	e.live(5, time.Second)
	if e.asked != 0 {
		t.Errorf("%d questions", e.asked)
	}
}

// Until it is known what is near, an instance waits, and says so; after its time it is
// decided by what is known, and what is not known is not near.
func TestADecisionTakesNoLongerThanItMay(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	s.share("web", 1, onWorker("w0"))
	within := api.Duration(4 * time.Second)
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		a.ConvergenceTime = &within
	})
	for range 4 { // nobody is asked
		s.m.lookNear(s.now)
		s.tick(time.Second)
		if i := s.inst("app.api.0"); i.Worker != "" || !strings.Contains(i.Reason, "0 of 2 workers have measured") {
			t.Fatalf("%s on %q: %q", i.State, i.Worker, i.Reason)
		}
	}
	for range 2 {
		s.m.lookNear(s.now)
		s.tick(time.Second)
	}
	// On the worker of web it is next to it, whatever was measured.
	if i := s.inst("app.api.0"); i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	s.share("db", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		onWorker("w5")(a)
		a.ConvergenceTime = &within
	})
	for range 8 {
		s.m.lookNear(s.now)
		s.tick(time.Second)
	}
	if i := s.inst("app.db.0"); i.State != wire.Requested || !strings.Contains(i.Reason, "1 is not known to be within 6ms of web (0 of 2 workers have measured their distances)") {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
	e.live(3, time.Second) // it heals as soon as it is known
	if i := s.inst("app.db.0"); i.Worker != "w5" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}

// Services that must be near each other, in a ring, are placed all the same, near each
// other, and at once.
func TestServicesNearEachOtherInARing(t *testing.T) {
	s, e := newNearSim(t, "w0", "w4", "w50", "w54", "w90")
	for n, name := range []string{"a", "b", "c"} {
		s.share(name, 1, nearTo([]string{"b", "c", "a"}[n], 5*time.Millisecond))
	}
	e.live(4, time.Second)
	var where []string
	for _, name := range []string{"a", "b", "c"} {
		i := s.inst("app." + name + ".0")
		if i.State != wire.Running {
			t.Fatalf("%s is %s: %q", name, i.State, i.Reason)
		}
		where = append(where, i.Worker)
	}
	if apart(where[0], where[1]) > 5*time.Millisecond || apart(where[1], where[2]) > 5*time.Millisecond {
		t.Errorf("they are on %v", where)
	}
}

// A service that is nowhere does not keep others from running.
func TestNearAServiceThatIsNowhere(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	s.share("web", 1, onWorker("nobody"))
	s.share("api", 1, nearTo("web", time.Millisecond))
	e.live(3, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "" || !strings.Contains(i.Reason, "waits for web to be placed") {
		t.Fatalf("on %q: %q", i.Worker, i.Reason)
	}
	e.live(12, time.Second)
	if i := s.inst("app.api.0"); i.State != wire.Running {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
}

// With more workers than can measure each other coordinates say what is near.
func TestCoordinatesSayWhatIsNear(t *testing.T) {
	var names []string
	for n := range 120 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := newNearSim(t, names...)
	s.share("web", 1, onWorker("w60"))
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 10*time.Millisecond)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.live(12, time.Second)
	i := s.inst("app.api.0")
	if i.Worker == "" || apart(i.Worker, "w60") > 12*time.Millisecond {
		t.Errorf("it is on %q: %q", i.Worker, i.Reason)
	}
	perMinute := e.asked
	e.live(60, time.Second)
	if n := e.asked - perMinute; n > 120*9 {
		t.Errorf("%d questions in a minute", n)
	}
}

// A worker that does not answer holds up nobody.
func TestASilentWorkerHoldsUpNobody(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5", "w6")
	e.silent["w5"] = true
	s.share("web", 1, onWorker("w0"))
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 6*time.Millisecond)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.live(3, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w6" {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
}

// Round trips that are others with each measurement, so that no coordinates come to rest:
// it is decided in time all the same, and the reason says what was too far.
func TestCoordinatesThatNeverConverge(t *testing.T) {
	var names []string
	for n := range 60 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := newNearSim(t, names...)
	rng := rand.New(rand.NewPCG(1, 2))
	s.share("web", 1, onWorker("w30"))
	within := api.Duration(4 * time.Second)
	s.share("api", 1, func(a *api.Service) {
		nearTo("web", 100*time.Microsecond)(a)
		a.AntiAffinity.Service, a.ConvergenceTime = []string{"web"}, &within
	})
	decided := -1
	for sec := range 30 {
		for _, a := range names {
			for _, b := range names {
				e.rtt[[2]string{a, b}] = time.Duration(1+rng.IntN(800)) * time.Millisecond
			}
		}
		e.live(1, time.Second)
		if i := s.inst("app.api.0"); i != nil && i.State == wire.Requested && decided < 0 {
			decided = sec
		}
	}
	i := s.inst("app.api.0")
	if decided < 0 || decided > 8 || !strings.Contains(i.Reason, "within 100µs of web") {
		t.Errorf("decided after %d s: %s, %q", decided, i.State, i.Reason)
	}
}

// What a service reads from a host is a wish: it is measured before an instance is placed,
// the workers that are near come first with every scheduler, and nobody is left out.
func TestPlacedNearAHostOfData(t *testing.T) {
	reads := func(scheduler string) func(*api.Service) {
		return func(s *api.Service) {
			s.Scheduler, s.Data = scheduler, []string{"https://data.example.org/file", "cats"}
		}
	}
	for scheduler, want := range map[string]map[string]int{
		"rom": {"w25": 1, "w20": 1}, "spread": {"w25": 1, "w20": 1}, "ldp": {"w25": 1, "w20": 1}, "drf": {"w25": 2}, // drf does not spread
	} {
		s, e := newNearSim(t, "w0", "w5", "w20", "w25", "w60")
		e.users["data.example.org:443"] = "w24"
		s.share("web", 2, reads(scheduler))
		e.live(3, time.Second)
		if on := s.on("web"); !maps.Equal(on, want) {
			t.Errorf("%s: web is on %v, want %v", scheduler, on, want)
		}
		s.share("web", 4, reads(scheduler))
		e.live(3, time.Second)
		if n := s.running("web"); n != 4 {
			t.Errorf("%s: %d run", scheduler, n)
		}
		for _, i := range s.m.Insts {
			if w := s.m.near.windows[i.ID]; w != nil {
				t.Errorf("%s: %s is judged by what is a wish", scheduler, i.ID)
			}
		}
	}
	// A host that answers nobody is waited for as long as the first answers take.
	s, e := newNearSim(t, "w0", "w5")
	s.share("web", 1, reads("rom"))
	e.live(3, time.Second)
	if n := s.running("web"); n != 1 {
		t.Errorf("%d run although the host answers nobody", n)
	}
}
