package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// What a failing check found reaches people: in the instance, in what its service lacks, in
// an event, and in what is reported to the root. That it was found again is no event.
func TestWhyAnInstanceIsNotReady(t *testing.T) {
	t.Parallel()
	s := newSim(t, "w1")
	s.share("web", 1, nil)
	s.ticks(2, time.Second)
	f := s.fakes["w1"]
	f.slow = 1000
	say := func(why string) {
		st := f.has["app.web.0"]
		st.Ready, st.Why = false, why
		f.has["app.web.0"] = st
		s.tick(time.Second)
	}
	const found = `readiness http /healthz: 503 "no data" (3 of 60)`
	s.told = nil
	say(found)
	i, up := s.m.Insts["app.web.0"], s.m.Ups["app.web.0"]
	if i.State != wire.Running || i.Ready || i.Reason != found || up == nil || up.Reason != found {
		t.Errorf("%+v, reported %+v", i, up)
	}
	if v := s.m.serviceView(s.m.Shares["app.web"]); !strings.Contains(v.Message, found) {
		t.Errorf("what it lacks: %q", v.Message)
	}
	say(`readiness http /healthz: 503 "no data" (60 of 60)`)
	if want := []string{"instance/app.web.0 not ready: " + found}; !slices.Equal(s.told, want) {
		t.Errorf("events %q, want %q", s.told, want)
	}
	if got := s.m.Insts["app.web.0"].Reason; !strings.HasSuffix(got, "(60 of 60)") {
		t.Errorf("after a minute: %q", got)
	}
	// As a worker of the version before says it.
	say("not ready: GET /healthz on port 80: status 503")
	if got := s.m.Insts["app.web.0"].Reason; got != "GET /healthz on port 80: status 503" {
		t.Errorf("of an older worker: %q", got)
	}
	f.slow, s.told = 0, nil
	s.tick(time.Second)
	if i := s.m.Insts["app.web.0"]; !i.Ready || i.Reason != "" || !slices.Equal(s.told, []string{"instance/app.web.0 ready"}) {
		t.Errorf("ready again: %+v, %q", i, s.told)
	}
}

// What is taken over without a whole pass is told as well.
func TestNewsWithoutAPass(t *testing.T) {
	t.Parallel()
	s := newSim(t, "w1")
	s.share("web", 1, nil)
	s.ticks(2, time.Second)
	st := s.m.Workers["w1"].Status["app.web.0"]
	st.Ready, st.Why = false, `readiness http /healthz: 503 "no data" (3 of 60)`
	s.m.Workers["w1"].Status["app.web.0"] = st
	tx, left := s.m.stepOf([]wire.InstanceID{"app.web.0"}, s.now)
	if left || len(tx.Events) != 1 || tx.Events[0].What != "not ready: "+st.Why {
		t.Errorf("left %v, events %+v", left, tx.Events)
	}
}
