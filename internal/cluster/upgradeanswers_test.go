package cluster

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/wire"
)

// answers lets the instance on a worker have answered in the last two seconds.
func (u *upgrades) answers(name string, requests, failed uint64) {
	u.onDemand(name, &wire.Demand{V: wire.Version, Span: api.Duration(epoch), Answers: []wire.InstanceAnswers{
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
		spec                func(s *wire.Share, u *upgrades)
		fails               string
	}{
		"more fail":         {said{100, 1}, said{40, 20}, said{100, 1}, nil, "of the requests to app.web here 20 of 40 failed (50%) since, 3 of 300 failed (1%) before, and on other workers 1 of 100 failed (1%) meanwhile"},
		"as many as before": {said{100, 50}, said{40, 20}, said{100, 1}, nil, ""},
		"as many elsewhere": {said{100, 1}, said{40, 20}, said{100, 50}, nil, ""},
		"few":               {said{100, 0}, said{100, 1}, said{100, 0}, nil, ""},
		"within what is allowed": {said{100, 1}, said{40, 20}, said{100, 1}, func(s *wire.Share, _ *upgrades) {
			s.Spec.Rollout.MaxErrors = new(api.Percent)
			*s.Spec.Rollout.MaxErrors = 6000
		}, ""},
		"nobody wants to know": {said{100, 1}, said{40, 20}, said{100, 1}, func(s *wire.Share, _ *upgrades) {
			s.Spec.Rollout.MaxErrors = new(api.Percent)
			*s.Spec.Rollout.MaxErrors = api.AllPercent
		}, ""},
		"no requests":             {said{100, 1}, said{40, 20}, said{100, 1}, func(s *wire.Share, _ *upgrades) { s.Spec.Ports = nil }, ""},
		"it is being rolled out":  {said{100, 1}, said{40, 20}, said{100, 1}, func(_ *wire.Share, u *upgrades) { u.m.rolls["app.web"] = &rolling{From: &api.Service{}} }, ""},
		"nothing was asked of it": {said{}, said{40, 20}, said{}, nil, ""},
		"not before":              {said{}, said{40, 20}, said{100, 1}, nil, "of none before"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpgrades(t, "w0", "w1")
			s := &wire.Share{V: wire.Version, App: "app", Service: "web", Revision: 1, Min: 2, Max: 2, Ordinals: []wire.Span{{To: 2}},
				Spec: &api.Service{Runtime: "process", Command: []string{"x"}, Ports: []api.Port{{Name: "http", Protocol: "http"}}}}
			u.m.Shares["app.web"] = s
			if c.spec != nil {
				c.spec(s, u)
			}
			counted := func() bool {
				rt := u.m.begin().ofRoot(nil)["app.web"]
				return rt != nil && rt.Requests.Counted
			}
			if counted() && !u.m.rolls["app.web"].open() {
				t.Error("it is counted before the upgrade")
			}
			u.begin(wire.UpgradeRequest{Soak: api.Duration(time.Minute)})
			first := judged(s)
			if first {
				u.expect(wire.UpgradeRolling, "w0 waiting, w1 waiting")
				if v := u.m.upgradeView(u.now); !counted() || !strings.Contains(v.Why, "counted first") {
					t.Errorf("counted %v, and it says %q", counted(), v.Why)
				}
			}
			for range 3 {
				u.answers("w0", c.before.requests, c.before.failed)
				u.answers("w1", c.rest.requests, c.rest.failed)
				u.look(2 * time.Second)
			}
			u.expect(wire.UpgradeRolling, "w0 upgrading, w1 waiting")
			u.answers("w0", 100, 100) // its engine is being replaced
			u.says("w0", wire.TryDone, "", false)
			u.look(time.Second)
			u.answers("w0", 100, 100) // partly of before
			for range 2 {
				u.look(2 * time.Second)
				u.answers("w0", c.after.requests, c.after.failed)
				u.answers("w1", c.rest.requests, c.rest.failed)
			}
			// The orchestrator reads all again, and what was counted stays.
			if c.spec == nil {
				counts := u.m.counts
				u.keeper.Wrote(errors.New("lost")) //nolint:errcheck // only noted
				insts := u.m.Insts
				u.look(0)
				maps.Copy(u.m.Insts, insts)
				u.m.Shares["app.web"] = s
				if u.m.counts != counts {
					t.Error("what was counted is lost")
				}
			}
			u.look(0)
			if c.fails == "" {
				u.expect(wire.UpgradeRolling, "w0 watched, w1 waiting")
				return
			}
			u.expect(wire.UpgradeHalted, "w0 failed, w1 waiting")
			if v := u.m.upgradeView(u.now); !strings.Contains(v.Workers[0].Why, c.fails) {
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
	u.m.Shares["app.web"] = &wire.Share{App: "app", Service: "web", Spec: &api.Service{Ports: []api.Port{{Name: "http", Protocol: "http"}}}}
	u.answers("w0", 10, 0)
	if u.m.counts != nil {
		t.Error("there is no upgrade, and it is counted")
	}
	u.begin(wire.UpgradeRequest{})
	u.answers("w0", 10, 3)
	if n := u.m.counts.by["w0"]["app.web"].before; n != (rollout.Count{Requests: 10, Failed: 3}) {
		t.Errorf("before: %v", n)
	}
	was := u.m.counts
	next := *u.m.upgrade()
	next.ID = wire.NewID()
	upgradeTable.Rows(u.m.DB)[""] = &next
	u.answers("w0", 1, 0)
	if u.m.counts == was || u.m.counts.by["w0"]["app.web"].before.Requests != 1 {
		t.Error("what was counted for another upgrade counts")
	}
	u.m.upgrade().Undo = true
	if u.answers("w0", 1, 0); u.m.counts != nil || u.m.countsForUpgrade() || u.m.upgradeHeld(u.now) != "" {
		t.Error("what goes back is judged")
	}
}
