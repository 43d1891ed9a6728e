package proximity_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAnInstanceIsPlacedNearAService(t *testing.T) {
	for _, first := range []string{"web", "api"} {
		s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w20", "w25", "w60")
		shares := map[string]func(){
			"web": func() { s.Share("web", 1, clustertest.OnWorker("w20")) },
			"api": func() { s.Share("api", 2, clustertest.NearTo("web", 6*time.Millisecond)) },
		}
		shares[first]()
		e.Run(2, time.Second)
		for name, share := range shares {
			if name != first {
				share()
			}
		}
		e.Run(5, time.Second)
		if on := s.Placed("api"); on["w20"] != 1 || on["w25"] != 1 {
			t.Errorf("%s first: api is on %v, want w20 and w25", first, on)
		}
		d := proximity.Thresholds(s.Model.Begin(), s.Model.Shares["app.api"], s.Now)
		if len(d) != 1 || len(d[0].Targets) != 1 || d[0].Targets[0].Worker != "w20" || d[0].Unknown != "" {
			t.Errorf("%+v", d)
		}
	}
}

// Nothing is asked where nothing must be near.
func TestNobodyIsAskedWithoutNeed(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	s.Share("web", 1, nil)
	e.Run(5, time.Second)
	if e.Asked != 0 {
		t.Errorf("%d questions", e.Asked)
	}
}

// Until it is known what is near, an instance waits, and says so; after its time it is
// decided by what is known, and what is not known is not near.
func TestADecisionTakesNoLongerThanItMay(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	s.Share("web", 1, clustertest.OnWorker("w0"))
	within := api.Duration(4 * time.Second)
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("web", 6*time.Millisecond)(a)
		a.ConvergenceTime = &within
	})
	for range 4 { // nobody is asked
		proximity.LookNear(s.Model, s.Now)
		s.Tick(time.Second)
		if i := s.Instance("app.api.0"); i.Worker != "" || !strings.Contains(i.Reason, "0 of 2 workers have measured") {
			t.Fatalf("%s on %q: %q", i.State, i.Worker, i.Reason)
		}
	}
	for range 2 {
		proximity.LookNear(s.Model, s.Now)
		s.Tick(time.Second)
	}
	// On the worker of web it is next to it, whatever was measured.
	if i := s.Instance("app.api.0"); i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	s.Share("db", 1, func(a *api.Service) {
		clustertest.NearTo("web", 6*time.Millisecond)(a)
		clustertest.OnWorker("w5")(a)
		a.ConvergenceTime = &within
	})
	for range 8 {
		proximity.LookNear(s.Model, s.Now)
		s.Tick(time.Second)
	}
	if i := s.Instance("app.db.0"); i.State != wire.Requested ||
		!strings.Contains(i.Reason, "1 is not known to be within 6ms of web (0 of 2 workers have measured their distances)") {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
	e.Run(3, time.Second) // it heals as soon as it is known
	if i := s.Instance("app.db.0"); i.Worker != "w5" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}

// Services that must be near each other, in a ring, are placed all the same, near each
// other, and at once.
func TestServicesNearEachOtherInARing(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w4", "w50", "w54", "w90")
	for n, name := range []string{"a", "b", "c"} {
		s.Share(name, 1, clustertest.NearTo([]string{"b", "c", "a"}[n], 5*time.Millisecond))
	}
	e.Run(4, time.Second)
	var where []string
	for _, name := range []string{"a", "b", "c"} {
		i := s.Instance("app." + name + ".0")
		if i.State != wire.Running {
			t.Fatalf("%s is %s: %q", name, i.State, i.Reason)
		}
		where = append(where, i.Worker)
	}
	if clustertest.Apart(where[0], where[1]) > 5*time.Millisecond ||
		clustertest.Apart(where[1], where[2]) > 5*time.Millisecond {
		t.Errorf("they are on %v", where)
	}
}

// A service that is nowhere does not keep others from running.
func TestNearAServiceThatIsNowhere(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	s.Share("web", 1, clustertest.OnWorker("nobody"))
	s.Share("api", 1, clustertest.NearTo("web", time.Millisecond))
	e.Run(3, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "" || !strings.Contains(i.Reason, "waits for web to be placed") {
		t.Fatalf("on %q: %q", i.Worker, i.Reason)
	}
	e.Run(12, time.Second)
	if i := s.Instance("app.api.0"); i.State != wire.Running {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
}

// With more workers than can measure each other coordinates say what is near.
func TestCoordinatesSayWhatIsNear(t *testing.T) {
	var names []string
	for n := range 120 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := clustertest.NewSimWithNetwork(t, names...)
	s.Share("web", 1, clustertest.OnWorker("w60"))
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("web", 10*time.Millisecond)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.Run(12, time.Second)
	i := s.Instance("app.api.0")
	if i.Worker == "" || clustertest.Apart(i.Worker, "w60") > 12*time.Millisecond {
		t.Errorf("it is on %q: %q", i.Worker, i.Reason)
	}
	perMinute := e.Asked
	e.Run(60, time.Second)
	if n := e.Asked - perMinute; n > 120*9 {
		t.Errorf("%d questions in a minute", n)
	}
}

// A worker that does not answer holds up nobody.
func TestASilentWorkerHoldsUpNobody(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w6")
	e.Silent["w5"] = true
	s.Share("web", 1, clustertest.OnWorker("w0"))
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("web", 6*time.Millisecond)(a)
		a.AntiAffinity.Service = []string{"web"}
	})
	e.Run(3, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w6" {
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
	s, e := clustertest.NewSimWithNetwork(t, names...)
	rng := rand.New(rand.NewPCG(1, 2))
	s.Share("web", 1, clustertest.OnWorker("w30"))
	within := api.Duration(4 * time.Second)
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("web", 100*time.Microsecond)(a)
		a.AntiAffinity.Service, a.ConvergenceTime = []string{"web"}, &within
	})
	decided := -1
	for sec := range 30 {
		for _, a := range names {
			for _, b := range names {
				e.RTT[[2]string{a, b}] = time.Duration(1+rng.IntN(800)) * time.Millisecond
			}
		}
		e.Run(1, time.Second)
		if i := s.Instance("app.api.0"); i != nil && i.State == wire.Requested && decided < 0 {
			decided = sec
		}
	}
	i := s.Instance("app.api.0")
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
		"rom": {"w25": 1, "w20": 1}, "spread": {"w25": 1, "w20": 1}, "ldp": {"w25": 1, "w20": 1}, "drf": {"w25": 2},
		// drf does not spread
	} {
		s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w20", "w25", "w60")
		e.Users["data.example.org:443"] = "w24"
		s.Share("web", 2, reads(scheduler))
		e.Run(3, time.Second)
		if on := s.Placed("web"); !maps.Equal(on, want) {
			t.Errorf("%s: web is on %v, want %v", scheduler, on, want)
		}
		s.Share("web", 4, reads(scheduler))
		e.Run(3, time.Second)
		if n := s.Running("web"); n != 4 {
			t.Errorf("%s: %d run", scheduler, n)
		}
		for _, i := range s.Model.Insts {
			if w := proximity.Memory(s.Model).Near.Windows[i.ID]; w != nil {
				t.Errorf("%s: %s is judged by what is a wish", scheduler, i.ID)
			}
		}
	}
	// A host that answers nobody is waited for as long as the first answers take.
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	s.Share("web", 1, reads("rom"))
	e.Run(3, time.Second)
	if n := s.Running("web"); n != 1 {
		t.Errorf("%d run although the host answers nobody", n)
	}
}
