// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
)

// It is said of a service that its program has failed, once two workers have given it up or
// all there are: to the root, and to people; and no more when another program is wanted.
func TestWhatHasFailedIsSaid(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][]string{"one worker": {"w1"}, "three workers": {"w1", "w2", "w3"}} {
		s := newSim(t, workers...)
		for _, w := range workers {
			s.fakes[w].broken["web"] = "exit"
		}
		s.share("web", 1, program("bad", nil))
		s.ticks(8, time.Second)
		up := s.m.Ups["app.web.0"]
		if v := s.m.serviceView(s.m.Shares["app.web"]); !strings.HasPrefix(v.Failed, "app.web.0: exited with 7") || up == nil || !strings.HasPrefix(up.Failed, "exited with 7") {
			t.Errorf("%s: %+v, reported %+v", name, v, up)
		}
		for _, w := range workers {
			delete(s.fakes[w].broken, "web")
		}
		s.share("web", 1, program("good", nil))
		s.ticks(4, time.Second)
		if v := s.m.serviceView(s.m.Shares["app.web"]); v.Failed != "" || v.Ready != 1 {
			t.Errorf("%s: another program: %+v", name, v)
		}
	}
	// For want of room it has not failed: there may be some later.
	s := newSim(t, "w1", "w2")
	for _, f := range s.fakes {
		f.broken["web"] = "refuse"
	}
	s.share("web", 1, nil)
	s.ticks(8, time.Second)
	if v := s.m.serviceView(s.m.Shares["app.web"]); v.Failed != "" {
		t.Errorf("without room: %+v", v)
	}
	// What is not to be run again after an error.
	s = newSim(t, "w1", "w2")
	for _, f := range s.fakes {
		f.broken["web"] = "exit"
	}
	s.share("web", 1, func(v *api.Service) { v.Restart.Policy = "never" })
	s.ticks(4, time.Second)
	if v := s.m.serviceView(s.m.Shares["app.web"]); !strings.HasPrefix(v.Failed, "app.web.0: exited with 7") {
		t.Errorf("with the policy never: %+v", v)
	}
}
