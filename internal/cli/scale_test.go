package cli

import (
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// shop is an application with one service of n ready instances.
func shop(n int) *resttest.Fake {
	f := &resttest.Fake{ApplicationData: resttest.ApplicationData{ApplyAnswer: apiv1.ApplyResult{Name: "shop", Revision: 2, Change: "updated"}}}
	f.Apps = []apiv1.AppView{{Name: "shop", Revision: 2, Holds: true,
		Services: []apiv1.ServiceView{{Name: "web", Wanted: n, Ready: n}}}}
	for o := range n {
		i := instance("shop.web."+string(rune('0'+o)), "web", o, "edge", "w1", noon)
		i.App, i.Revision = "shop", 2
		f.InstanceList = append(f.InstanceList, i)
	}
	return f
}

func TestScaleDownWaitsUntilTheyAreGone(t *testing.T) {
	fake := shop(3)
	f := newFixture(t, fake)
	fake.Apps[0].Services[0].Wanted, fake.Apps[0].Services[0].Ready = 1, 1
	asked := 0
	fake.Hook = func(f *resttest.Fake, op string) error {
		if op == "instances" {
			if asked++; asked == 5 {
				f.InstanceList = f.InstanceList[:1]
			}
		}
		return nil
	}
	args := []string{"scale", "shop.web", "--replicas", "1"}
	f.golden("scale", f.run(args...), args...)
	if fake.Apps[0].Services[0].Wanted != 1 {
		t.Errorf("asked for %d", fake.Apps[0].Services[0].Wanted)
	}
}

func TestScaleThatDoesNotEnd(t *testing.T) {
	f := newFixture(t, shop(3))
	args := []string{"scale", "service/shop.web", "--replicas", "1", "--timeout", "3s"}
	f.golden("scale-timeout", f.run(args...), args...)
	args = []string{"scale", "service", "shop.web", "--replicas", "2", "--no-wait"}
	f.golden("scale-no-wait", f.run(args...), args...)
}

func TestScaleRefuses(t *testing.T) {
	f := newFixture(t, shop(1))
	for name, args := range map[string][]string{
		"scale-missing":    {"scale", "shop.wbe", "--replicas", "1"},
		"scale-no-number":  {"scale", "shop.web"},
		"scale-wrong-kind": {"scale", "application/shop", "--replicas", "1"},
		"scale-no-service": {"scale", "shop", "--replicas", "1"},
	} {
		f.golden(name, f.run(args...), args...)
	}
}
