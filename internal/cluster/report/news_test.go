package report_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// What a failing check found reaches people: in the instance, in what its service lacks, in
// an event, and in what is reported to the root. That it was found again is no event.
func TestWhyAnInstanceIsNotReady(t *testing.T) {
	t.Parallel()
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 1, nil)
	s.Ticks(2, time.Second)
	f := s.Workers["w1"]
	f.Slow = 1000
	say := func(why string) {
		st := f.Statuses["app.web.0"]
		st.Ready, st.Why = false, why
		f.Statuses["app.web.0"] = st
		s.Tick(time.Second)
	}
	const found = `readiness http /healthz: 503 "no data" (3 of 60)`
	s.Events = nil
	say(found)
	i, up := s.Model.Insts["app.web.0"], s.Model.Ups["app.web.0"]
	if i.State != wire.Running || i.Ready || i.Reason != found || up == nil || up.Reason != found {
		t.Errorf("%+v, reported %+v", i, up)
	}
	if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); !strings.Contains(v.Message, found) {
		t.Errorf("what it lacks: %q", v.Message)
	}
	say(`readiness http /healthz: 503 "no data" (60 of 60)`)
	if want := []string{"instance/app.web.0 not ready: " + found}; !slices.Equal(s.Events, want) {
		t.Errorf("events %q, want %q", s.Events, want)
	}
	if got := s.Model.Insts["app.web.0"].Reason; !strings.HasSuffix(got, "(60 of 60)") {
		t.Errorf("after a minute: %q", got)
	}
	// As a worker of the version before says it.
	say("not ready: GET /healthz on port 80: status 503")
	if got := s.Model.Insts["app.web.0"].Reason; got != "GET /healthz on port 80: status 503" {
		t.Errorf("of an older worker: %q", got)
	}
	f.Slow, s.Events = 0, nil
	s.Tick(time.Second)
	if i := s.Model.Insts["app.web.0"]; !i.Ready || i.Reason != "" ||
		!slices.Equal(s.Events, []string{"instance/app.web.0 ready"}) {
		t.Errorf("ready again: %+v, %q", i, s.Events)
	}
}

// What is taken over without a whole pass is told as well.
func TestNewsWithoutAPass(t *testing.T) {
	t.Parallel()
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 1, nil)
	s.Ticks(2, time.Second)
	st := s.Model.Workers["w1"].Status["app.web.0"]
	st.Ready, st.Why = false, `readiness http /healthz: 503 "no data" (3 of 60)`
	s.Model.Workers["w1"].Status["app.web.0"] = st
	tx, left := reconcile.StepOf(s.Model, []wire.InstanceID{"app.web.0"}, s.Now)
	if left || len(tx.Events) != 1 || tx.Events[0].Text != "not ready: "+st.Why {
		t.Errorf("left %v, events %+v", left, tx.Events)
	}
}
