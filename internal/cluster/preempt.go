package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Preemption: an instance for which no worker has room may displace some of services
// with a lower priority. Those are ended as in a move (Instance.Leaving): by their stop
// rule, with their room still theirs until the worker says that they are gone. The
// instance waits for that without a note of its own: what leaves is looked at as room
// that comes, so whoever waits for it displaces nobody else. Placing goes by priority,
// so that those that were displaced do not take back what they gave; and as nobody
// displaces his equal, no chain of them comes back to where it began.

// byPriority are the instances, those of the highest priority first.
func (t *tx) byPriority() []*wire.Instance {
	list, any := t.instances(), false
	for _, s := range t.m.shares {
		any = any || s.Spec.Priority > 0
	}
	if !any {
		return list
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *wire.Instance) int { return cmp.Compare(t.priority(b), t.priority(a)) })
	return list
}

func (t *tx) priority(i *wire.Instance) int {
	if s := t.m.shares[i.App+"."+i.Service]; s != nil {
		return s.Spec.Priority
	}
	return 0
}

// owner is the namespace of an instance. Priorities count within one alone: nothing
// bounds yet which of them a namespace may use.
func (t *tx) owner(i *wire.Instance) string {
	if s := t.m.shares[i.App+"."+i.Service]; s != nil {
		return s.Namespace
	}
	return ""
}

// displaceable says whether an instance may be ended to make room: it runs or is about
// to, alone, and has nothing that it would leave behind.
func displaceable(i *wire.Instance) bool {
	return (i.State == wire.Running || i.State == wire.WorkerScheduled) && i.Worker != "" && i.Pinned == "" && !i.Draining &&
		!i.Unreachable && i.Moving == nil && i.Leaving == nil && !asleep(i)
}

// reserves is what an instance has of a worker: what it is, or is to be, the larger.
func (t *tx) reserves(worker string, i *wire.Instance) (r api.Resources, held []wire.Held) {
	if s := t.m.shares[i.App+"."+i.Service]; s != nil {
		r = s.Spec.Resources
	}
	if o := t.ordered(worker + "." + i.ID); o != nil && o.Spec != nil {
		r, held = place.Larger(r, o.Spec.Resources), o.Devices
	}
	return r, held
}

// coming are the workers as they will be when everything that leaves has left and
// everybody who waits for that has his place.
func (t *tx) coming(app, service string) []place.WorkerView {
	views := slices.Clone(t.index().Views(app + "." + service))
	at := map[string]*place.WorkerView{}
	for k := range views {
		views[k].Devices = slices.Clone(views[k].Devices)
		at[views[k].ID] = &views[k]
	}
	for _, i := range t.instances() {
		if i.Leaving == nil || at[i.Leaving.Worker] == nil {
			continue
		}
		v := at[i.Leaving.Worker]
		r, held := t.reserves(v.ID, i)
		v.Used = place.Sub(v.Used, r)
		for _, h := range held {
			for k := range v.Devices {
				if v.Devices[k].ID == h.ID {
					v.Devices[k].Used -= h.Share
				}
			}
		}
	}
	return views
}

// displacing begins the reason of an instance for which others make room.
const displacing = "displaces "

// claim promises an instance its room on a worker as it will be (v), until the end of
// the pass: nobody who comes after it in the pass gets what is free of that already.
func (t *tx) claim(v *place.WorkerView, i *wire.Instance, s *wire.Share) {
	u := t.used()[v.ID]
	if u == nil {
		return
	}
	u.used = place.Add(u.used, s.Spec.Resources)
	if held, _ := place.Give(v.Devices, s.Spec.Resources, s.Spec.Devices); len(held) > 0 {
		u.hold(held, 1)
		t.rehold(v.ID, t.m.workers[v.ID], u)
	}
	t.refit(v.ID, i.App, i.Service)
}

// preempt makes room for an instance that no worker can take (d says why). False where
// that is not for it to ask, or would be no help.
func (t *tx) preempt(i wire.Instance, s *wire.Share, d place.Decision, avoid []string, now time.Time) bool {
	if s.Spec.Priority <= 0 || s.Spec.Plugin != "" { // whose plugin alone knows what will do
		return false
	}
	req := request(&i, s)
	req.Scheduler = "" // all of them take what fits, and that alone matters
	req.Avoid = avoid
	views := t.coming(i.App, i.Service)
	if next := place.Schedule(views, req); next.Chosen != "" {
		t.claim(viewOf(views, next.Chosen), &i, s)
		if !strings.HasPrefix(i.Reason, displacing) {
			i.Reason = "waits until others have left worker " + next.Chosen + " and made room"
		}
		t.put(i)
		return true
	}
	occupants := map[string][]place.Occupant{}
	for _, o := range t.instances() {
		if p := t.priority(o); p < s.Spec.Priority && displaceable(o) && t.owner(o) == s.Namespace {
			r, held := t.reserves(o.Worker, o)
			occupants[o.Worker] = append(occupants[o.Worker], place.Occupant{ID: o.ID, Priority: p, Reserves: r, Devices: held})
		}
	}
	worker, victims := place.Preempt(views, occupants, req)
	if worker == "" {
		return false
	}
	var names []string
	for _, v := range victims {
		names = append(names, v.ID)
		t.displace(v.ID, i.ID, s.Spec.Priority, now)
	}
	t.claim(viewOf(t.coming(i.App, i.Service), worker), &i, s)
	i.Reason = fmt.Sprintf(displacing+"%s on worker %s, which had no room for it", strings.Join(names, ", "), worker)
	t.put(i)
	t.event("instance/"+i.ID, "%s", i.Reason)
	d.Reason += "; it " + i.Reason
	t.whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	return true
}

func viewOf(views []place.WorkerView, name string) *place.WorkerView {
	return &views[slices.IndexFunc(views, func(v place.WorkerView) bool { return v.ID == name })]
}

// displace ends an instance for another. It is placed again where there is room, at
// present or later.
func (t *tx) displace(id, by wire.InstanceID, priority int, now time.Time) {
	i := *t.inst(id)
	why := fmt.Sprintf("displaced by %s, which has priority %d", by, priority)
	t.event("instance/"+id, "%s", why)
	leaving := &wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation, Started: now.Round(0), Restarted: i.Restarted}
	i = t.advance(i, wire.Failed, now, t.m.tier(), why)
	i = t.advance(i, wire.Requested, now, t.m.tier(), why)
	i.Leaving, i.Worker, i.LastExit, i.Unreachable = leaving, "", nil, false
	t.put(i)
}

// lower is what instances reserve that others could displace, for the root.
func (t *tx) lower() []wire.PriorityUse {
	sum := map[int]api.Resources{}
	for _, i := range t.instances() {
		if displaceable(i) {
			r, _ := t.reserves(i.Worker, i)
			sum[t.priority(i)] = place.Add(sum[t.priority(i)], r)
		}
	}
	var out []wire.PriorityUse
	for p, r := range sum {
		out = append(out, wire.PriorityUse{Priority: p, Used: r})
	}
	slices.SortFunc(out, func(a, b wire.PriorityUse) int { return cmp.Compare(a.Priority, b.Priority) })
	for len(out) > wire.MaxLower { // the last two are told as one, of the lower priority
		n := len(out)
		out[n-2].Used = place.Add(out[n-2].Used, out[n-1].Used)
		out = out[:n-1]
	}
	return out
}
