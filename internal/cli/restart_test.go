package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRestartShowsEachInstance(t *testing.T) {
	fake := shop(2)
	fake.RestartAnswer = apiv1.RestartResult{Name: "shop", N: 4, Instances: []string{"shop.web.0", "shop.web.1"}}
	asked := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op != "instances" {
			return nil
		}
		if asked++; asked%2 == 0 && asked/2 <= 2 {
			i := &f.InstanceList[asked/2-1]
			at := noon.Add(time.Duration(asked) * time.Second)
			i.Incarnation, i.Restarted = 2, 4
			i.History = append(i.History,
				wire.Transition{To: wire.WorkerScheduled, At: at, Tier: "cluster/edge",
					Why: "restarted by admin/ann: new certificate"},
				wire.Transition{To: wire.Running, At: at.Add(time.Second), Tier: "worker/w1", Why: "started"})
		}
		return nil
	}
	f := newFixture(t, fake)
	args := []string{"restart", "shop.web", "--reason", "certificate"}
	f.golden("restart", f.run(args...), args...)
	if len(fake.Restarts) != 1 || fake.Restarts[0] != (apiv1.RestartRequest{Service: "web", Reason: "certificate"}) {
		t.Errorf("asked for %+v", fake.Restarts)
	}
}

func TestRestartThatDoesNotEnd(t *testing.T) {
	fake := shop(2)
	fake.RestartAnswer = apiv1.RestartResult{Name: "shop", N: 4, Instances: []string{"shop.web.0", "shop.web.1"}}
	fake.InstanceList[0].Restarted, fake.InstanceList[0].Ready = 4, false
	f := newFixture(t, fake)
	args := []string{"restart", "application/shop", "--timeout", "3s"}
	f.golden("restart-timeout", f.run(args...), args...)
	args = []string{"restart", "instance/shop.web.1", "--no-wait"}
	fake.RestartAnswer.Instances = []string{"shop.web.1"}
	f.golden("restart-no-wait", f.run(args...), args...)
	if q := fake.Restarts[1]; q.Ordinal == nil || *q.Ordinal != 1 || q.Service != "web" {
		t.Errorf("asked for %+v", q)
	}
}

func TestRestartRefuses(t *testing.T) {
	f := newFixture(t, shop(1))
	for name, args := range map[string][]string{
		"restart-missing":    {"restart", "shp"},
		"restart-wrong-kind": {"restart", "worker/w1"},
		"restart-mismatch":   {"restart", "service/shop"},
		"restart-no-ordinal": {"restart", "shop.web.x"},
	} {
		f.golden(name, f.run(args...), args...)
	}
}
