package upgrades

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/rollout"
	"github.com/verge-edge/verge/internal/policy/wave"
	"github.com/verge-edge/verge/internal/wire"
)

// While the workers are upgraded it is counted how the instances on each have answered
// before it was, and since: a new router may break what none of them does. The counts are
// of this process; one that is started in the middle compares with what it still hears.

// countFirst is how long answers are counted before the first worker is touched, so that
// there is something to compare with. It covers two reports of the workers.
const countFirst = 3 * autoscale.Epoch

// Counts are how instances have answered during an upgrade.
type Counts struct {
	id string // of the upgrade
	// rest are the answers on workers that are not being upgraded or watched now, by
	// service: what goes wrong for all at the same time is not one worker's doing.
	rest map[string]rollout.Count
	By   map[string]map[string]*upgradeSides // by worker and service
}

// upgradeSides are the answers of a service's instances on one worker.
type upgradeSides struct {
	Before, after rollout.Count
	since         time.Time     // of after: when it began to be watched
	rest          rollout.Count // of all others, by then
}

// Judged says whether it matters to an upgrade how instances of a service answer.
func Judged(s *wire.Share) bool {
	return s != nil && s.Spec.ForRequests() && s.Spec.MaxErrors() < api.AllPercent
}

// CountsForUpgrade says whether answers are to be counted because of an upgrade.
func CountsForUpgrade(m *state.Model) bool {
	switch u := Current(m); {
	case u == nil || u.Undo || u.State == apiv1.UpgradeDone:
		return false
	case u.State == apiv1.UpgradeRolling:
		return true
	}
	for _, r := range WorkerTable.Rows(m.DB) { // nothing more begins, and some may still be watched
		if r.ID == Current(m).ID && (r.Phase == wave.Soaks || r.Phase == wave.Begun) {
			return true
		}
	}
	return false
}

// Held is why no worker may begin now, "" if one may.
func Held(m *state.Model, now time.Time) string {
	u := Current(m)
	left := countFirst - max(now.Sub(u.At), u.At.Sub(now))
	if left <= 0 || u.Undo {
		return ""
	}
	for _, i := range m.Insts {
		if i.State == wire.Running && Judged(m.Shares[i.App+"."+i.Service]) {
			return fmt.Sprintf("it is counted first how instances answer now, for another %s", left.Round(time.Second))
		}
	}
	return ""
}

// AnsweredInUpgrade takes what a worker says of how its instances have answered in a span,
// and reports whether that makes its upgrade fail.
func AnsweredInUpgrade(m *state.Model, name string, list []wire.InstanceAnswers, span time.Duration,
	now time.Time) (fails bool) {
	u := Current(m)
	if u == nil || u.Undo || u.State == apiv1.UpgradeDone {
		Memory(m).Counts = nil
		return false
	}
	if Memory(m).Counts == nil || Memory(m).Counts.id != u.ID {
		Memory(m).Counts = &Counts{id: u.ID, rest: map[string]rollout.Count{},
			By: map[string]map[string]*upgradeSides{}}
	}
	phase, since := wave.Waits, time.Time{}
	if r := WorkerTable.Rows(m.DB)[name]; r != nil && r.ID == u.ID {
		if phase, since = r.Phase, r.Since; r.Undo {
			return false // it goes back
		}
	}
	if phase == wave.Begun || phase == wave.Failed || phase == wave.Soaks && now.Sub(since) < span {
		return false // it was said of both
	}
	c := Memory(m).Counts
	for _, a := range list {
		i := m.Insts[a.Instance]
		if i == nil || i.Worker != name || i.State != wire.Running || !i.Ready || !i.ReadyAt.IsZero() &&
			now.Sub(i.ReadyAt) < span {
			continue
		}
		key := i.App + "." + i.Service
		if s := m.Shares[key]; !Judged(s) || rollouts.Table.Rows(m.DB)[key].Open() {
			continue // what is rolled out is judged by that
		}
		count := rollout.Count{Requests: min(a.Answered, rollouts.MaxAnswers),
			Failed: min(a.Failed, rollouts.MaxAnswers)}
		x := c.By[name][key]
		if x == nil {
			if c.By[name] == nil {
				c.By[name] = map[string]*upgradeSides{}
			}
			x = &upgradeSides{}
			c.By[name][key] = x
		}
		if phase == wave.Soaks {
			if !x.since.Equal(since) {
				x.since, x.after, x.rest = since, rollout.Count{}, c.rest[key]
			}
			x.after.Add(count)
			continue
		}
		rest := c.rest[key]
		rest.Add(count)
		c.rest[key] = rest
		if phase == wave.Waits {
			x.Before.Add(count)
		}
	}
	return phase == wave.Soaks && worseSince(m, name, since) != ""
}

// worseSince says in words of which service certainly more requests fail on a worker since
// it is watched than before, and than on the others in the same time; "" for none. What
// nobody was asked before is not judged.
func worseSince(m *state.Model, name string, since time.Time) string {
	c := Memory(m).Counts
	if c == nil || Current(m) == nil || c.id != Current(m).ID {
		return ""
	}
	for _, key := range records.SortedKeys(c.By[name]) {
		x, s := c.By[name][key], m.Shares[key]
		if !Judged(s) || !x.since.Equal(since) || rollouts.Table.Rows(m.DB)[key].Open() {
			continue
		}
		bound, rest := s.Spec.MaxErrors().Of(), c.rest[key]
		rest = rollout.Count{Requests: rest.Requests - x.rest.Requests, Failed: rest.Failed - x.rest.Failed}
		known := x.Before.Requests > 0 || rest.Requests > 0
		if known && rollout.Exceeds(bound, x.Before, x.after) &&
			(rest.Requests == 0 || rollout.Exceeds(bound, rest, x.after)) {
			return fmt.Sprintf("of the requests to %s here %s since, %s before, and on other workers %s meanwhile",
				key, x.after, x.Before, rest)
		}
	}
	return ""
}
