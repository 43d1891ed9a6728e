package upgrader_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// answers lets the instance on a worker have answered in the last two seconds.
func (u *upgradeSite) answers(name string, requests, failed uint64) {
	demand.OnDemand(u.Core, name, &wire.Demand{V: wire.Version, Span: api.Duration(autoscale.Epoch),
		Answers: []wire.InstanceAnswers{
			{Instance: "app.web." + name[1:], Answered: requests, Failed: failed},
			{Instance: "app.web.77", Answered: 1 << 60, Failed: 1 << 60}, // nobody knows it
		}}, u.now)
}

// An upgrade after which more requests to what runs on a worker fail than before, and than
// elsewhere, stops there and goes back; nothing else is taken for that.
func TestUpgradeHaltsWhereMoreRequestsFail(t *testing.T) {
	type said struct{ requests, failed uint64 }
	for name, c := range map[string]struct {
		before, after, rest said // of w0, since it is watched, and of w1 meanwhile
		spec                func(s *wire.Share, u *upgradeSite)
		fails               string
	}{
		"more fail": {said{100, 1}, said{40, 20}, said{100, 1}, nil,
			"of the requests to app.web here 20 of 40 failed (50%) since, 3 of 300 failed (1%) before, and on " +
				"other workers 1 of 100 failed (1%) meanwhile"},
		"as many as before": {said{100, 50}, said{40, 20}, said{100, 1}, nil, ""},
		"as many elsewhere": {said{100, 1}, said{40, 20}, said{100, 50}, nil, ""},
		"few":               {said{100, 0}, said{100, 1}, said{100, 0}, nil, ""},
		"within what is allowed": {said{100, 1}, said{40, 20}, said{100, 1}, func(s *wire.Share, _ *upgradeSite) {
			s.Spec.Rollout.MaxErrors = new(api.Percent)
			*s.Spec.Rollout.MaxErrors = 6000
		}, ""},
		"nobody wants to know": {said{100, 1}, said{40, 20}, said{100, 1}, func(s *wire.Share, _ *upgradeSite) {
			s.Spec.Rollout.MaxErrors = new(api.Percent)
			*s.Spec.Rollout.MaxErrors = api.AllPercent
		}, ""},
		"no requests": {said{100, 1}, said{40, 20}, said{100, 1},
			func(s *wire.Share, _ *upgradeSite) { s.Spec.Ports = nil }, ""},
		"it is being rolled out": {said{100, 1}, said{40, 20}, said{100, 1}, func(_ *wire.Share, u *upgradeSite) {
			rollouts.Table.Rows(u.M.DB)["app.web"] = &rollouts.Record{From: &api.Service{}}
		}, ""},
		"nothing was asked of it": {said{}, said{40, 20}, said{}, nil, ""},
		"not before":              {said{}, said{40, 20}, said{100, 1}, nil, "of none before"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpgrades(t, "w0", "w1")
			s := &wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 1, Min: 2, Max: 2,
				Ordinals: []wire.Span{{To: 2}},
				Spec: &api.Service{Runtime: "process", Command: []string{"x"},
					Ports: []api.Port{{Name: "http", Protocol: "http"}}}}
			u.M.Shares["app.web"] = s
			if c.spec != nil {
				c.spec(s, u)
			}
			counted := func() bool {
				rt := routes.OfRoot(u.M.Begin(), nil)["app.web"]
				return rt != nil && rt.Requests.Counted
			}
			if counted() && !rollouts.Table.Rows(u.M.DB)["app.web"].Open() {
				t.Error("it is counted before the upgrade")
			}
			u.begin(apiv1.UpgradeRequest{Soak: api.Duration(time.Minute)})
			first := upgrades.Judged(s)
			if first {
				u.expect(apiv1.UpgradeRolling, "w0 waiting, w1 waiting")
				if v := upgrades.View(u.M, u.now); !counted() || !strings.Contains(v.Why, "counted first") {
					t.Errorf("counted %v, and it says %q", counted(), v.Why)
				}
			}
			for range 3 {
				u.answers("w0", c.before.requests, c.before.failed)
				u.answers("w1", c.rest.requests, c.rest.failed)
				u.look(2 * time.Second)
			}
			u.expect(apiv1.UpgradeRolling, "w0 upgrading, w1 waiting")
			u.answers("w0", 100, 100) // its engine is being replaced
			u.says("w0", rpc.TryDone, "", false)
			u.look(time.Second)
			u.answers("w0", 100, 100) // partly of before
			for range 2 {
				u.look(2 * time.Second)
				u.answers("w0", c.after.requests, c.after.failed)
				u.answers("w1", c.rest.requests, c.rest.failed)
			}
			// The orchestrator reads all again, and what was counted stays.
			if c.spec == nil {
				counts := upgrades.Memory(u.M).Counts
				u.Keeper.Wrote(errors.New("lost")) //nolint:errcheck // only noted
				insts := u.M.Insts
				u.look(0)
				maps.Copy(u.M.Insts, insts)
				u.M.Shares["app.web"] = s
				if upgrades.Memory(u.M).Counts != counts {
					t.Error("what was counted is lost")
				}
			}
			u.look(0)
			if c.fails == "" {
				u.expect(apiv1.UpgradeRolling, "w0 watched, w1 waiting")
				return
			}
			u.expect(apiv1.UpgradeHalted, "w0 failed, w1 waiting")
			if v := upgrades.View(u.M, u.now); !strings.Contains(v.Workers[0].Why, c.fails) {
				t.Errorf("it says %q, want %q", v.Workers[0].Why, c.fails)
			}
			if q := u.asked["w0"]; q.Undo == "" {
				t.Errorf("it was not told to go back: %+v", q)
			}
			if _, asked := u.asked["w1"]; asked || counted() {
				t.Errorf("the next one was touched (%v), or it is counted still (%v)", asked, counted())
			}
		})
	}
}

// What goes back is not judged, and who joins or leaves in the middle confuses nothing.
func TestUpgradeCountsAreOfTheUpgradeThatThereIs(t *testing.T) {
	u := newUpgrades(t, "w0", "w1")
	u.M.Shares["app.web"] = &wire.Share{App: "app", Service: "web",
		Spec: &api.Service{Ports: []api.Port{{Name: "http", Protocol: "http"}}}}
	u.answers("w0", 10, 0)
	if upgrades.Memory(u.M).Counts != nil {
		t.Error("there is no upgrade, and it is counted")
	}
	u.begin(apiv1.UpgradeRequest{})
	u.answers("w0", 10, 3)
	if n := upgrades.Memory(u.M).Counts.By["w0"]["app.web"].Before; n != (rollout.Count{Requests: 10, Failed: 3}) {
		t.Errorf("before: %v", n)
	}
	was := upgrades.Memory(u.M).Counts
	next := *upgrades.Current(u.M)
	next.ID = wire.NewID()
	upgrades.Table.Rows(u.M.DB)[""] = &next
	u.answers("w0", 1, 0)
	if upgrades.Memory(u.M).Counts == was || upgrades.Memory(u.M).Counts.By["w0"]["app.web"].Before.Requests != 1 {
		t.Error("what was counted for another upgrade counts")
	}
	upgrades.Current(u.M).Undo = true
	if u.answers("w0", 1, 0); upgrades.Memory(u.M).Counts != nil || upgrades.CountsForUpgrade(u.M) ||
		upgrades.Held(u.M, u.now) != "" {
		t.Error("what goes back is judged")
	}
}
