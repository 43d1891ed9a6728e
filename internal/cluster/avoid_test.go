// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"
)

// What failed on a worker was one program. The next one is tried there at once, and what is
// said of it names nothing of the one before.
func TestAnotherProgramIsNotAvoided(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"a rollout": 1, "a first revision": 0} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "w1")
			if first > 0 {
				s.share("web", first, program("mine:1", nil))
				s.ticks(4, time.Second)
			}
			s.fakes["w1"].broken["web"] = "exit"
			s.share("web", 1, program("mine:2", nil))
			s.ticks(6, time.Second)
			failed := 0
			for _, i := range s.m.Insts {
				if len(i.Avoid) > 0 {
					failed++
				}
			}
			if failed == 0 {
				t.Fatalf("nothing failed\n%s", s.dump())
			}
			delete(s.fakes["w1"].broken, "web")
			s.told = nil
			s.share("web", 1, program("mine:4", nil))
			s.ticks(5, time.Second)
			if n := s.programs("web"); n["mine:4"] == 0 {
				t.Errorf("it waits: %v\n%s", n, s.dump())
			}
			for _, e := range s.told {
				if strings.Contains(e, "avoid") || strings.Contains(e, "exited with 7") {
					t.Errorf("what is said: %s", e)
				}
			}
			for _, i := range s.m.Insts {
				if strings.Contains(i.Reason, "exited with 7") || i.LastExit != nil {
					t.Errorf("%s: %q, %+v", i.ID, i.Reason, i.LastExit)
				}
			}
			if s.m.serviceView(s.m.Shares["app.web"]).Ready != 1 {
				t.Errorf("%+v", s.m.serviceView(s.m.Shares["app.web"]))
			}
		})
	}
}
