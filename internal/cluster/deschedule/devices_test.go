package deschedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/wire"
)

// What has a device that is gone moves to a worker that has another, make before break;
// where there is none it goes on, and the root is told. What is back is nobody's loss.
func TestALostDeviceMovesItsInstance(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetDevices("w1", "camera")
	s.Share("watch", 1, func(v *api.Service) { v.Devices = []api.DeviceNeed{{Type: "camera", Count: 1}} })
	s.Ticks(4, time.Second)
	i := s.Instance("app.watch.0")
	if i.Worker != "w1" || i.State != wire.Running {
		t.Fatalf("%+v\n%s", i, s.Dump())
	}
	told := func() string {
		if up := s.Model.Ups[i.ID]; up != nil {
			return up.SLAViolation
		}
		return ""
	}
	s.SetDevices("w1")
	s.Ticks(4, time.Second)
	if now := s.Instance(i.ID); now.Worker != "w1" || now.State != wire.Running || told() != proximity.LostDevice {
		t.Fatalf("nobody else has one: on %q %s, the root is told %q", now.Worker, now.State, told())
	}
	s.Restart()
	s.Ticks(4, time.Second)
	if told() != proximity.LostDevice {
		t.Errorf("after a restart the root is told %q", told())
	}
	s.SetDevices("w1", "camera")
	s.Ticks(4, time.Second)
	if now := s.Instance(i.ID); now.Incarnation != i.Incarnation || told() != "" {
		t.Errorf("it is back: incarnation %d instead of %d, the root is told %q", now.Incarnation, i.Incarnation,
			told())
	}
	s.SetDevices("w2", "camera")
	s.Ticks(4, time.Second)
	if now := s.Instance(i.ID); now.Worker != "w1" {
		t.Fatalf("it moved to %s without need", now.Worker)
	}
	s.SetDevices("w1")
	least := 1
	for range 20 {
		s.Tick(time.Second)
		least = min(least, s.Running("watch"))
	}
	now := s.Instance(i.ID)
	if now.Worker != "w2" || now.State != wire.Running || least < 1 ||
		fmt.Sprint(s.Devices("watch")) != "map[w2 camera0 1:1]" {
		t.Errorf("on %q %s, %d ran at least, it has %v\n%s", now.Worker, now.State, least, s.Devices("watch"), s.Dump())
	}
	if n := len(now.History); n == 0 || !strings.Contains(fmt.Sprint(now.History),
		"its device camera0 is gone from worker w1") {
		t.Errorf("%+v", now.History)
	}
}
