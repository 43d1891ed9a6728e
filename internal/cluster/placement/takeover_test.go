package placement_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/wire"
)

// An application of the same name, program and revision in another namespace does
// not take over what runs, with the secrets and volumes of that.
func TestAnotherNamespaceIsAnotherApplication(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 1, nil)
	s.Ticks(3, time.Second)
	next := *s.Model.FromRoot["app.web"]
	next.Namespace = "theirs"
	s.Model.FromRoot["app.web"] = &next
	reconcile.Effect(s.Model)
	s.Ticks(2, time.Second)
	if o := s.Model.Orders["w1.app.web.0"]; o == nil || o.Namespace != "theirs" {
		t.Errorf("the worker is told %+v", o)
	}
	next.Namespace = api.DefaultNamespace
	s.Ticks(2, time.Second)
	before := s.Model.Orders["w1.app.web.0"]
	next.Namespace = ""
	s.Ticks(2, time.Second)
	if o := s.Model.Orders["w1.app.web.0"]; o != before {
		t.Errorf("the same namespace by another name: %+v", o)
	}
}

// An application that was deleted and applied anew has revision 1 again.
func TestAnotherProgramWithTheSameRevisionIsTakenOver(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 1, nil)
	s.Ticks(3, time.Second)
	s.Share("web", 1, func(v *api.Service) { v.Command = []string{"y"} })
	s.Model.FromRoot["app.web"].Revision = 1
	reconcile.Effect(s.Model)
	s.Ticks(12, time.Second)
	i := s.Instance("app.web.0")
	if o := s.Model.Orders["w1.app.web.0"]; o.Spec.Command[0] != "y" || i.State != wire.Running || i.Incarnation != 2 {
		t.Fatalf("it runs %v as incarnation %d", o.Spec.Command, i.Incarnation)
	}
}
