package views_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/views"
)

// It is said of a service that its program has failed, once two workers have given it up or
// all there are: to the root, and to people; and no more when another program is wanted.
func TestWhatHasFailedIsSaid(t *testing.T) {
	t.Parallel()
	for name, workers := range map[string][]string{"one worker": {"w1"}, "three workers": {"w1", "w2", "w3"}} {
		s := clustertest.NewSim(t, workers...)
		for _, w := range workers {
			s.Workers[w].Broken["web"] = "exit"
		}
		s.Share("web", 1, clustertest.Program("bad", nil))
		s.Ticks(8, time.Second)
		up := s.Model.Ups["app.web.0"]
		if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); !strings.HasPrefix(v.Failed,
			"app.web.0: exited with 7") ||
			up == nil || !strings.HasPrefix(up.Failed, "exited with 7") {
			t.Errorf("%s: %+v, reported %+v", name, v, up)
		}
		for _, w := range workers {
			delete(s.Workers[w].Broken, "web")
		}
		s.Share("web", 1, clustertest.Program("good", nil))
		s.Ticks(4, time.Second)
		if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); v.Failed != "" || v.Ready != 1 {
			t.Errorf("%s: another program: %+v", name, v)
		}
	}
	// For want of room it has not failed: there may be some later.
	s := clustertest.NewSim(t, "w1", "w2")
	for _, f := range s.Workers {
		f.Broken["web"] = "refuse"
	}
	s.Share("web", 1, nil)
	s.Ticks(8, time.Second)
	if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); v.Failed != "" {
		t.Errorf("without room: %+v", v)
	}
	// What is not to be run again after an error.
	s = clustertest.NewSim(t, "w1", "w2")
	for _, f := range s.Workers {
		f.Broken["web"] = "exit"
	}
	s.Share("web", 1, func(v *api.Service) { v.Restart.Policy = "never" })
	s.Ticks(4, time.Second)
	if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); !strings.HasPrefix(v.Failed,
		"app.web.0: exited with 7") {
		t.Errorf("with the policy never: %+v", v)
	}
}
