package cluster

import (
	"fmt"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
	"slices"
	"time"
)

// request asks for a worker for an instance. Which clusters may have it the root
// has decided already.
func request(i *wire.Instance, s *wire.Share) place.Request {
	r := place.NewRequest(i.ID, s.Spec, 1)
	r.Affinity.Cluster, r.Affinity.Area = nil, nil
	r.AntiAffinity.Cluster, r.AntiAffinity.Area = nil, nil
	r.Pinned = i.Pinned
	return r
}

// used is the usage as this tx leaves it, counted once.
func (t *tx) used() map[string]*usage {
	if t.use == nil {
		t.use = t.usage()
	}
	return t.use
}

// keptApart are the services of an application of which none may run beside the
// one named: those that it excludes and those that exclude it.
func (t *tx) keptApart(app, service string) []string {
	if t.apart == nil {
		t.apart = map[string][]string{}
		for _, s := range t.m.Shares {
			for _, other := range s.Spec.AntiAffinity.Service {
				for _, pair := range [...][2]string{{s.Service, other}, {other, s.Service}} {
					key := s.App + "." + pair[0]
					if !slices.Contains(t.apart[key], pair[1]) {
						t.apart[key] = append(t.apart[key], pair[1])
					}
				}
			}
		}
		for _, list := range t.apart {
			slices.Sort(list)
		}
	}
	return t.apart[app+"."+service]
}

// views are the workers as they are, by name, whatever is to be placed.
func (t *tx) views(use map[string]*usage) []place.WorkerView {
	out := make([]place.WorkerView, 0, len(t.m.Workers))
	for _, name := range t.m.WorkerNames() {
		v := view(t.m.Workers[name], name)
		v.Used = use[name].used
		use[name].taken(v.Devices)
		out = append(out, v)
	}
	return out
}

// view is what a worker is, without what it runs.
func view(w *state.Worker, name string) place.WorkerView {
	labels := w.Labels
	if labels == nil {
		labels = w.Info.Labels
	}
	var users []string
	if iso := w.Info.Isolation; iso != nil && iso.Users { // without, all run as the user of the worker
		users = iso.HostUsers
	}
	return place.WorkerView{
		ID: name, HostUsers: users, Runtimes: w.Info.Runtimes, Capacity: w.Info.Capacity, Suspect: w.Suspect || !w.EverHeard, Cordoned: w.Cordon != nil,
		Arch: w.Info.Arch, Labels: labels, Location: w.Info.Location, HostPaths: w.Info.HostPaths,
		Devices: devices(w), Coord: w.Coord, Overlay: inOverlay(w),
	}
}

// unfit says why an instance may not run on a worker by what its share says, ""
// if it may. Of services that are kept apart only those count that its own
// excludes: those that exclude it move themselves.
func (t *tx) unfit(i *wire.Instance, name string, s *wire.Share) string {
	w := t.m.Workers[name]
	if w == nil {
		return ""
	}
	v := view(w, name)
	for _, other := range s.Spec.AntiAffinity.Service {
		n := t.used()[name].same[i.App+"."+other]
		if other == i.Service && (i.Worker == name || underWay(i) && i.Moving.Worker == name) {
			n-- // itself
		}
		if n > 0 {
			v.Conflicts = append(v.Conflicts, other)
		}
	}
	return place.Unfit(v, request(i, s))
}

// misfit says why an instance must move to be of the revision of its share, ""
// if it may stay. One with a volume stays in any case.
func (t *tx) misfit(i *wire.Instance, s *wire.Share) string {
	if i.Pinned != "" || i.State != wire.Running && i.State != wire.WorkerScheduled {
		return ""
	}
	return t.unfit(i, i.Worker, s)
}

// move updates an instance whose worker does not satisfy what a new revision
// asks for: it is placed again, and its old order is swept away. Where no worker
// can take it, it has failed here, and is given back to the root, unless some
// workers have not been heard yet.
func (t *tx) move(i wire.Instance, s *wire.Share, why string, now time.Time) {
	i.Revision, i.LastExit, i.Avoid = s.Revision, nil, nil
	d := t.schedule(&i, s, nil)
	if t.waiting[i.ID] {
		return // it goes on where it is
	}
	reason := fmt.Sprintf("moving for revision %d: its worker %s", s.Revision, why)
	if d.Chosen == "" {
		if !t.m.gathering(now) {
			t.unplaced(t.Advance(i, wire.Failed, now, t.m.Tier(), reason), d, now)
		}
		return
	}
	if i.State == wire.Running { // else it has not started yet, and nobody misses it
		i = t.Advance(i, wire.WorkerScheduled, now, t.m.Tier(), reason)
	}
	t.release(&i, s)
	t.assign(i, s, d, now)
}

// release gives back what an instance has of its worker.
func (t *tx) release(i *wire.Instance, s *wire.Share) {
	u := t.used()[i.Worker]
	if u == nil {
		return
	}
	if !state.Asleep(i) { // else it reserves nothing
		u.used = amount.Sub(u.used, s.Spec.Resources)
	}
	u.same[i.App+"."+i.Service]--
	u.n--
	t.refit(i.Worker, i.App, i.Service)
}

// reserve takes what an instance needs of a worker.
func (t *tx) reserve(name string, i *wire.Instance, s *wire.Share) {
	u := t.used()[name]
	if u == nil {
		return
	}
	u.used = amount.Add(u.used, s.Spec.Resources)
	u.add(i)
	t.refit(name, i.App, i.Service)
}

// schedule asks the scheduler for a worker.
func (t *tx) schedule(i *wire.Instance, s *wire.Share, avoid []string) place.Decision {
	r := request(i, s)
	r.Avoid = t.shunned(i, avoid)
	r.Scheduler, r.Plugin = t.m.schedulerOf(s)
	if asksNear(s.Spec) {
		r.Latency = t.thresholds(s, t.Now)
	}
	f := t.index()
	switch key := i.App + "." + i.Service; r.Scheduler {
	case place.Throughput:
		t.rate(key)
	case place.NearestDemand:
		t.rate(key)
		r.Traffic = t.traffic(key, i.Worker)
	}
	begin := time.Now()
	var d place.Decision
	if r.Scheduler == schedulerPlugin {
		d = t.advised(i, s, r)
	} else {
		d = f.Schedule(i.App+"."+i.Service, r)
	}
	d.TookNs = time.Since(begin).Nanoseconds()
	d.Request.Turn = t.turn
	return d
}

// assign gives an instance, which is in the state WorkerScheduled, to the worker
// that was chosen.
func (t *tx) assign(i wire.Instance, s *wire.Share, d place.Decision, now time.Time) {
	i.Worker = d.Chosen
	i.Unreachable = false
	t.start(i, s)
	t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: d}
	t.reserve(d.Chosen, &i, s)
	t.occupies(t.Inst(i.ID))
}

// pin notes the worker on which an instance has a named volume.
func pin(i *wire.Instance, s *wire.Share) {
	switch {
	case !s.Spec.Pins():
		i.Pinned = ""
	case i.Pinned == "":
		i.Pinned = i.Worker
	}
}

// unpin lets an instance go whose volume was lost with its worker.
func (t *tx) unpin(i wire.Instance) wire.Instance {
	if i.Pinned != "" && t.m.Workers[i.Pinned] == nil {
		t.Event("instance/"+i.ID, "its worker was removed from the cluster, and its volumes with it")
		i.Pinned, i.Former = "", i.Pinned
	}
	return i
}
