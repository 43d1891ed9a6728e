// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// equip gives a worker of a sim devices, as "gpu a10".
func (s *sim) equip(name string, texts ...string) {
	s.know(name, func(info *wire.WorkerInfo) {
		info.Devices = nil
		for _, text := range texts {
			typ, model, _ := strings.Cut(text, " ")
			n := int(wire.DeviceUnits(info.Devices, typ) / 1000)
			info.Devices = append(info.Devices, wire.Device{ID: fmt.Sprint(typ, n), Type: typ, Model: model})
		}
		info.Capacity.VGPUs = wire.DeviceUnits(info.Devices, api.DeviceGPU)
	})
}

func gpus(u api.Units, model ...string) func(*api.Service) {
	return func(v *api.Service) {
		if v.Resources.VGPUs = u; len(model) > 0 {
			v.Devices = []api.DeviceNeed{{Type: api.DeviceGPU, Model: model}}
		}
	}
}

// held writes what the instances of a service have, as "w1 gpu0 0.5".
func (s *sim) held(svc string) map[string]int {
	out := map[string]int{}
	for key, o := range s.m.Orders {
		if o.Service != svc {
			continue
		}
		for _, h := range o.Devices {
			out[strings.TrimSuffix(key, "."+o.ID)+" "+h.ID+" "+h.Share.String()]++
		}
	}
	return out
}

func TestDevicesStandInOrders(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.equip("w1", "gpu t4", "gpu t4")
	s.equip("w2", "gpu a10", "camera")
	s.share("web", 2, nil)
	s.share("learn", 2, gpus(1000, "t4"))
	s.share("infer", 2, gpus(500, "a10"))
	s.share("watch", 1, func(v *api.Service) { v.Devices = []api.DeviceNeed{{Type: "camera", Count: 1}} })
	s.ticks(4, time.Second)
	for svc, want := range map[string]string{
		"learn": "map[w1 gpu0 1:1 w1 gpu1 1:1]", "infer": "map[w2 gpu0 0.5:2]", "watch": "map[w2 camera0 1:1]", "web": "map[]",
	} {
		if got := fmt.Sprint(s.held(svc)); got != want {
			t.Errorf("%s has %s, want %s\n%s", svc, got, want, s.dump())
		}
	}
	// One more has no room, and says why.
	s.share("more", 1, gpus(200, "a10"))
	s.ticks(3, time.Second)
	if i := s.inst("app.more.0"); i.State != wire.Requested || !strings.Contains(i.Reason, "needs 0.2 of a gpu of model a10, at most 0 of one free") {
		t.Errorf("%s: %s", i.State, i.Reason)
	}
	// Neither a new process of the cluster nor a restart of an instance changes who has what.
	before := fmt.Sprint(s.held("learn"), s.held("infer"))
	s.restart()
	s.ticks(3, time.Second)
	s.again("infer", 0)
	s.ticks(4, time.Second)
	if after := fmt.Sprint(s.held("learn"), s.held("infer")); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	// Room that is given up is used.
	s.unshare("infer")
	s.ticks(6, time.Second)
	if got := fmt.Sprint(s.held("more")); got != "map[w2 gpu0 0.2:1]" {
		t.Errorf("more has %s\n%s", got, s.dump())
	}
}

// An update that needs more than its worker has left moves, or stays as it is.
func TestAnUpdateForDevices(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.equip("w1", "gpu t4")
	s.share("infer", 2, gpus(500))
	s.ticks(4, time.Second)
	was := fmt.Sprint(s.held("infer"))
	s.share("infer", 2, gpus(1000)) // one of the two could, if the other went first
	for range 10 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("infer"); ready != 2 {
			t.Fatalf("%d of 2 answer\n%s", ready, s.dump())
		}
	}
	if got := fmt.Sprint(s.held("infer")); got != was {
		t.Errorf("it was %s and is %s", was, got)
	}
	s.equip("w2", "gpu t4", "gpu t4")
	s.ticks(20, time.Second)
	if got := s.held("infer"); len(got) != 2 || s.answering("infer") != 2 {
		t.Errorf("there is room for both now, and they have %v\n%s", got, s.dump())
	}
}

// Whatever comes and goes, no device is in orders more than once (checkDevices).
func TestDevicesUnderChange(t *testing.T) {
	for seed := range uint64(20) {
		s := newSim(t, "w1", "w2", "w3")
		r := rand.New(rand.NewPCG(seed, 7))
		for i, n := range []int{1, 2, 4} {
			s.equip(fmt.Sprint("w", i+1), []string{"gpu a10", "gpu t4", "camera", "gpu a10"}[:n]...)
		}
		for range 40 {
			svc := string(rune('a' + r.IntN(5)))
			switch r.IntN(6) {
			case 0:
				s.unshare(svc)
			case 1:
				f := s.fakes[fmt.Sprint("w", 1+r.IntN(3))]
				f.linked = !f.linked
			case 2:
				s.again(svc, -1)
			case 3:
				s.restart()
			default:
				units := []api.Units{250, 500, 700, 1000, 2000}[r.IntN(5)]
				s.share(svc, 1+r.IntN(3), gpus(units, []string{"a10", "t4"}[:r.IntN(3)]...))
			}
			s.ticks(1+r.IntN(12), 2*time.Second)
		}
	}
}

// What has a device that is gone moves to a worker that has another, make before break;
// where there is none it goes on, and the root is told. What is back is nobody's loss.
func TestALostDeviceMovesItsInstance(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.equip("w1", "camera")
	s.share("watch", 1, func(v *api.Service) { v.Devices = []api.DeviceNeed{{Type: "camera", Count: 1}} })
	s.ticks(4, time.Second)
	i := s.inst("app.watch.0")
	if i.Worker != "w1" || i.State != wire.Running {
		t.Fatalf("%+v\n%s", i, s.dump())
	}
	told := func() string {
		if up := s.m.Ups[i.ID]; up != nil {
			return up.SLAViolation
		}
		return ""
	}
	s.equip("w1")
	s.ticks(4, time.Second)
	if now := s.inst(i.ID); now.Worker != "w1" || now.State != wire.Running || told() != lostDevice {
		t.Fatalf("nobody else has one: on %q %s, the root is told %q", now.Worker, now.State, told())
	}
	s.restart()
	s.ticks(4, time.Second)
	if told() != lostDevice {
		t.Errorf("after a restart the root is told %q", told())
	}
	s.equip("w1", "camera")
	s.ticks(4, time.Second)
	if now := s.inst(i.ID); now.Incarnation != i.Incarnation || told() != "" {
		t.Errorf("it is back: incarnation %d instead of %d, the root is told %q", now.Incarnation, i.Incarnation, told())
	}
	s.equip("w2", "camera")
	s.ticks(4, time.Second)
	if now := s.inst(i.ID); now.Worker != "w1" {
		t.Fatalf("it moved to %s without need", now.Worker)
	}
	s.equip("w1")
	least := 1
	for range 20 {
		s.tick(time.Second)
		least = min(least, s.running("watch"))
	}
	now := s.inst(i.ID)
	if now.Worker != "w2" || now.State != wire.Running || least < 1 || fmt.Sprint(s.held("watch")) != "map[w2 camera0 1:1]" {
		t.Errorf("on %q %s, %d ran at least, it has %v\n%s", now.Worker, now.State, least, s.held("watch"), s.dump())
	}
	if n := len(now.History); n == 0 || !strings.Contains(fmt.Sprint(now.History), "its device camera0 is gone from worker w1") {
		t.Errorf("%+v", now.History)
	}
}
