package placement_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/wire"
)

func gpus(u api.Units, model ...string) func(*api.Service) {
	return func(v *api.Service) {
		if v.Resources.VGPUs = u; len(model) > 0 {
			v.Devices = []api.DeviceNeed{{Type: api.DeviceGPU, Model: model}}
		}
	}
}

func TestDevicesStandInOrders(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	s.SetDevices("w1", "gpu t4", "gpu t4")
	s.SetDevices("w2", "gpu a10", "camera")
	s.Share("web", 2, nil)
	s.Share("learn", 2, gpus(1000, "t4"))
	s.Share("infer", 2, gpus(500, "a10"))
	s.Share("watch", 1, func(v *api.Service) { v.Devices = []api.DeviceNeed{{Type: "camera", Count: 1}} })
	s.Ticks(4, time.Second)
	for svc, want := range map[string]string{
		"learn": "map[w1 gpu0 1:1 w1 gpu1 1:1]", "infer": "map[w2 gpu0 0.5:2]", "watch": "map[w2 camera0 1:1]",
		"web": "map[]",
	} {
		if got := fmt.Sprint(s.Devices(svc)); got != want {
			t.Errorf("%s has %s, want %s\n%s", svc, got, want, s.Dump())
		}
	}
	// One more has no room, and says why.
	s.Share("more", 1, gpus(200, "a10"))
	s.Ticks(3, time.Second)
	if i := s.Instance("app.more.0"); i.State != wire.Requested ||
		!strings.Contains(i.Reason, "needs 0.2 of a gpu of model a10, at most 0 of one free") {
		t.Errorf("%s: %s", i.State, i.Reason)
	}
	// Neither a new process of the cluster nor a restart of an instance changes who has what.
	before := fmt.Sprint(s.Devices("learn"), s.Devices("infer"))
	s.Restart()
	s.Ticks(3, time.Second)
	s.MarkRestart("infer", 0)
	s.Ticks(4, time.Second)
	if after := fmt.Sprint(s.Devices("learn"), s.Devices("infer")); after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	// Room that is given up is used.
	s.Unshare("infer")
	s.Ticks(6, time.Second)
	if got := fmt.Sprint(s.Devices("more")); got != "map[w2 gpu0 0.2:1]" {
		t.Errorf("more has %s\n%s", got, s.Dump())
	}
}

// An update that needs more than its worker has left moves, or stays as it is.
func TestAnUpdateForDevices(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetDevices("w1", "gpu t4")
	s.Share("infer", 2, gpus(500))
	s.Ticks(4, time.Second)
	was := fmt.Sprint(s.Devices("infer"))
	s.Share("infer", 2, gpus(1000)) // one of the two could, if the other went first
	for range 10 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("infer"); ready != 2 {
			t.Fatalf("%d of 2 answer\n%s", ready, s.Dump())
		}
	}
	if got := fmt.Sprint(s.Devices("infer")); got != was {
		t.Errorf("it was %s and is %s", was, got)
	}
	s.SetDevices("w2", "gpu t4", "gpu t4")
	s.Ticks(20, time.Second)
	if got := s.Devices("infer"); len(got) != 2 || s.Answering("infer") != 2 {
		t.Errorf("there is room for both now, and they have %v\n%s", got, s.Dump())
	}
}

// Whatever comes and goes, no device is in orders more than once (checkDevices).
func TestDevicesUnderChange(t *testing.T) {
	for seed := range uint64(20) {
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		r := rand.New(rand.NewPCG(seed, 7))
		for i, n := range []int{1, 2, 4} {
			s.SetDevices(fmt.Sprint("w", i+1), []string{"gpu a10", "gpu t4", "camera", "gpu a10"}[:n]...)
		}
		for range 40 {
			svc := string(rune('a' + r.IntN(5)))
			switch r.IntN(6) {
			case 0:
				s.Unshare(svc)
			case 1:
				f := s.Workers[fmt.Sprint("w", 1+r.IntN(3))]
				f.Linked = !f.Linked
			case 2:
				s.MarkRestart(svc, -1)
			case 3:
				s.Restart()
			default:
				units := []api.Units{250, 500, 700, 1000, 2000}[r.IntN(5)]
				s.Share(svc, 1+r.IntN(3), gpus(units, []string{"a10", "t4"}[:r.IntN(3)]...))
			}
			s.Ticks(1+r.IntN(12), 2*time.Second)
		}
	}
}
