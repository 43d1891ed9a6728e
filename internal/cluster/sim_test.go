package cluster

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// sim is a cluster's model with workers that do as they are told, in virtual
// time: the same step as the live loop, nothing of its I/O.
type sim struct {
	t     testing.TB
	m     *model
	now   time.Time
	disk  map[string][]byte // what a store would hold
	fakes map[string]*fake
	marks uint64   // restarts that were asked for
	told  []string // events of what the cluster decided and heard
}

// fake is a worker: it runs its orders while it is alive, and reports them
// while it is linked.
type fake struct {
	alive, linked bool
	has           map[string]wire.InstanceStatus
	// broken says how a service ends on this worker: "exit", "complete" or "refuse".
	broken map[string]string
	// ends says how a run of an instance of a job ends here, and after how many reports; nil
	// goes on.
	ends func(o *wire.Order) (code *wire.Exit, after int)
	// slow is how many reports it takes until what was started is ready.
	slow   int
	warm   map[string]int // reports since the start, by instance
	starts int
	// room is what it really has; nil: enough for whatever it is given.
	room     *api.Resources
	refusals int
	seq      uint64
	// volumes does what an order asks for of volumes; nil does it at once, and well.
	volumes func(w *wire.VolumeWork) *wire.VolumeReport
	lease   *wire.Lease // of the network, as it was told
}

func newSim(t testing.TB, workers ...string) *sim {
	s := &sim{t: t, now: time.Unix(1e9, 0), disk: map[string][]byte{}, fakes: map[string]*fake{}}
	s.m = newModel("edge", true, s.now)
	s.m.net.Signs = "key"
	s.grant(wire.ClusterLease{
		V: wire.Version, Cluster: "edge", Index: 3, Prefix: netip.MustParsePrefix("fd01:203:405::/48"), Pool: lease.DefaultPool, Services: lease.DefaultServices,
		Numbers: []wire.Block{{From: 100, N: 40}}, Subnets: []wire.Block{{From: 7, N: 3}},
	})
	for _, w := range workers {
		s.addWorker(w)
	}
	return s
}

// grant is what the root gives of the network.
func (s *sim) grant(l wire.ClusterLease) {
	netlease.BlocksTable.Rows(s.m.DB)[""] = &l
	s.store(netlease.KeyBlocks+"net", l)
}

func (s *sim) addWorker(name string) {
	info := wire.WorkerInfo{
		V: wire.Version, Name: name, Runtimes: []string{"process"}, Address: name + ":8474",
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 10 << 30}, Arch: "amd64",
	}
	rec := state.WorkerRecord{V: wire.Version, Info: info}
	s.m.Workers[name] = state.NewWorker(rec, s.now)
	s.store(state.KeyWorker+name, rec)
	s.fakes[name] = &fake{alive: true, linked: true, has: map[string]wire.InstanceStatus{}, warm: map[string]int{}, broken: map[string]string{}}
}

// cordon takes a worker out of use, or (nil) into use again.
func (s *sim) cordon(name string, c *wire.Cordon) {
	w := s.m.Workers[name]
	w.Cordon = c
	s.store(state.KeyWorker+name, w.WorkerRecord)
}

func (s *sim) store(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	s.disk[key] = b
}

// share delegates n instances of a service, as the root would.
func (s *sim) share(svc string, n int, change func(*api.Service)) {
	spec := &api.Service{
		Runtime: "process", Command: []string{"x"}, Resources: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20},
		Ports: []api.Port{{Name: "http", Protocol: "http"}}, Spread: "soft", Scheduler: "rom", Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
		Restart: api.Restart{Policy: "always"},
	}
	if change != nil {
		change(spec)
	}
	sh := &wire.Share{V: wire.Version, App: "app", Service: svc, Revision: 1, Min: n, Max: n, Ordinals: []wire.Span{{To: n}}, Spec: spec}
	if old := s.m.Given["app."+svc]; old != nil {
		sh.Revision, sh.Restart, sh.RestartOf = old.Revision+1, old.Restart, old.RestartOf
	}
	s.m.Given["app."+svc] = sh
	s.m.effect()
	s.store(state.KeyShare+"app."+svc, sh)
}

// again marks a service, or one ordinal of it (≥ 0), to be started again.
func (s *sim) again(svc string, ordinal int) uint64 {
	old := s.m.Given["app."+svc]
	if old == nil {
		return 0
	}
	s.marks++
	next, r := *old, wire.Restart{N: s.marks, By: "admin", Why: "a test"}
	if ordinal < 0 {
		next.Restart, next.RestartOf = &r, nil
	} else {
		next.RestartOf = map[int]wire.Restart{ordinal: r}
	}
	s.m.Given["app."+svc] = &next
	s.m.effect()
	s.store(state.KeyShare+"app."+svc, &next)
	return s.marks
}

// resume lets the rollouts of all services that have failed try again.
func (s *sim) resume() {
	for key, sh := range s.m.Given {
		next := *sh
		h := wire.Hold{}
		if sh.Hold != nil {
			h = *sh.Hold
		}
		h.Paused = false
		h.Resumed++
		next.Hold = &h
		s.m.Given[key] = &next
		s.store(state.KeyShare+key, &next)
	}
	s.m.effect()
}

func (s *sim) unshare(svc string) {
	delete(s.m.Given, "app."+svc)
	s.m.effect()
	delete(s.disk, state.KeyShare+"app."+svc)
}

// tick lets d pass and everybody act once.
func (s *sim) tick(d time.Duration) {
	s.now = s.now.Add(d)
	for name, f := range s.fakes {
		f.act(s, name)
	}
	for range maxRounds {
		t := s.m.step(s.now)
		checkIndex(s.t, t)
		groups, err := t.Encode()
		if err != nil {
			s.t.Fatal(err)
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			s.apply(g)
		}
		t.Done()
		for _, e := range t.Events {
			s.told = append(s.told, e.Subject+" "+e.What)
			if strings.HasPrefix(e.What, "refused") {
				s.t.Fatalf("%s: %s", e.Subject, e.What)
			}
		}
	}
	if groups, err := s.m.step(s.now).Encode(); err != nil || len(groups) > 0 {
		s.t.Fatalf("a pass does not settle: %v %s\n%s", err, groups[0][0].Key, s.dump())
	}
	s.m.Recovery.Settled = !s.m.Unasked(state.TheRoot)
	s.check()
}

func (s *sim) ticks(n int, d time.Duration) {
	for range n {
		s.tick(d)
	}
}

func (s *sim) apply(ops []bus.Op) {
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.Key] {
			s.t.Fatalf("key %s twice in one group", op.Key)
		}
		seen[op.Key] = true
		if op.Delete {
			delete(s.disk, op.Key)
		} else {
			s.disk[op.Key] = op.Value
		}
	}
}

// restart is a new process on the same store: it knows nothing of before.
func (s *sim) restart() {
	s.m = newModel("edge", true, s.now)
	s.m.net.Signs = "key"
	for key, value := range s.disk {
		if _, err := s.m.DB.Load(bus.Entry{Key: key, Value: value}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.m.derive(s.now)
	s.m.recallMoves(s.now)
}

// act runs the worker's orders and reports.
func (f *fake) act(s *sim, name string) {
	w := s.m.Workers[name]
	if !f.alive || !f.linked {
		if !w.Suspect && w.EverHeard {
			w.Suspect, w.Since, w.Connected = true, s.now, false
		}
		if !f.alive {
			f.has = map[string]wire.InstanceStatus{}
		}
		return
	}
	if s.m.Silent(name) { // it is told nothing, and keeps what it has
		f.report(w, s.now)
		return
	}
	if netlease.ToldTable.Rows(s.m.DB)[name] != nil {
		if next := netlease.LeaseTable.Rows(s.m.DB)[name].Lease; f.lease != nil && (f.lease.Number != next.Number || f.lease.IPv4.IsValid() && f.lease.IPv4 != next.IPv4) {
			s.t.Fatalf("%s had %+v and is given %+v", name, *f.lease, next)
		} else {
			f.lease = &next
		}
	}
	for id, st := range f.has {
		o := s.m.Orders[name+"."+id]
		switch {
		case o == nil:
			delete(f.has, id)
		case o.Stop && st.Phase == wire.PhaseRunning:
			st.Phase, st.Ready = wire.PhaseStopped, false
			f.has[id] = st
		}
	}
	f.work(s, name)
	for id, st := range f.has {
		o := s.m.Orders[name+"."+id]
		if f.ends == nil || o == nil || o.Job == nil || st.Phase != wire.PhaseRunning {
			continue
		}
		if e, after := f.ends(o); e != nil && f.warm[id] >= after {
			st.Phase, st.Ready, st.LastExit, st.Why = wire.PhaseExited, false, e, life.Describe(*e)+", the restart policy is never"
			f.has[id] = st
		}
	}
	for id, st := range f.has {
		if f.warm[id]++; st.Phase == wire.PhaseRunning && f.warm[id] >= f.slow {
			st.Ready = true
			f.has[id] = st
		}
	}
	for key, o := range s.m.Orders {
		if !strings.HasPrefix(key, name+".") || o.Stop {
			continue
		}
		if st, ok := f.has[o.ID]; ok && st.Incarnation == o.Incarnation {
			st.Revision = o.Revision
			f.has[o.ID] = st
			continue
		}
		f.starts++
		f.warm[o.ID] = 0
		st := wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision, Phase: wire.PhaseRunning, Ready: f.slow == 0}
		st.Addrs = f.addrs(o)
		if o.Sleep != nil && !o.Sleep.Awake {
			st.Phase, st.Ready, st.Asleep = wire.PhasePending, false, true
		}
		switch f.broken[o.Service] {
		case "exit":
			st.Phase, st.Ready, st.Why, st.LastExit = wire.PhaseExited, false, "exited with 7, 5 restarts in a row", &wire.Exit{Code: 7}
		case "complete":
			st.Phase, st.Ready, st.LastExit = wire.PhaseExited, false, &wire.Exit{}
		case "refuse":
			st.Phase, st.Ready, st.Why = wire.PhaseRefused, false, "needs 64Mi memory, 1Mi free"
		}
		if why := f.full(s, name, o); why != "" {
			st.Phase, st.Ready, st.Why = wire.PhaseRefused, false, why
			f.refusals++
		}
		f.has[o.ID] = st
	}
	f.report(w, s.now)
}

// report brings the cluster's copy up to date, as the exchange would.
func (f *fake) report(w *state.Worker, now time.Time) {
	f.seq++
	rep := wire.Report{V: wire.Version, To: wire.Rev{Inc: "agent", N: f.seq}}
	w.Current = true // it has acted on all of its orders
	w.Status = map[string]wire.InstanceStatus{}
	for id, st := range f.has {
		w.Status[id] = st
		b, _ := json.Marshal(st)
		rep.Changes = append(rep.Changes, wire.Change{Key: id, Value: b})
	}
	w.Inbox.Accept(rep)
	w.Heard, w.EverHeard, w.Connected, w.Suspect = now, true, true, false
	w.Info.Lease = f.lease
}

// addrs are what a worker gives an instance.
func (f *fake) addrs(o *wire.Order) []netip.Addr {
	if f.lease == nil || o.AppNumber == 0 {
		return nil
	}
	b := f.lease.Prefix.Addr().As16()
	binary.BigEndian.PutUint32(b[6:], f.lease.Number)
	binary.BigEndian.PutUint32(b[9:], o.AppNumber|uint32(b[9])<<24)
	b[15] = byte(o.Ordinal + 1)
	out := []netip.Addr{netip.AddrFrom16(b)}
	if f.lease.IPv4.IsValid() {
		out = append(out, f.lease.IPv4.Addr().Next())
	}
	return out
}

// checkNetwork: nothing of the network has two owners, and what is said of an
// address is what its worker gave.
func (s *sim) checkNetwork() {
	s.t.Helper()
	numbers, subnets := map[uint32]string{}, map[netip.Prefix]string{}
	for name, f := range s.fakes {
		if f.lease == nil {
			continue
		}
		if other := numbers[f.lease.Number]; other != "" {
			s.t.Fatalf("%s and %s have number %d", other, name, f.lease.Number)
		}
		if other := subnets[f.lease.IPv4]; other != "" && f.lease.IPv4.IsValid() {
			s.t.Fatalf("%s and %s have %s", other, name, f.lease.IPv4)
		}
		numbers[f.lease.Number], subnets[f.lease.IPv4] = name, name
	}
	for _, r := range s.m.Routes {
		for _, e := range r.Endpoints {
			f := s.fakes[e.Worker]
			if e.Cluster != s.m.Name || f == nil {
				continue
			}
			if st, ok := f.has[e.Instance]; ok && f.alive && f.linked && !s.m.Silent(e.Worker) && !slices.Equal(st.Addrs, e.Addrs) {
				s.t.Fatalf("%s has %v, its route says %v", e.Instance, st.Addrs, e.Addrs)
			}
		}
	}
}

// check holds what must be true after every pass.
func (s *sim) check() {
	s.t.Helper()
	s.checkNetwork()
	s.checkDevices()
	used := map[string]api.Resources{}
	orders := map[string]int{}
	for key, o := range s.m.Orders {
		name := strings.TrimSuffix(key, "."+o.ID)
		orders[o.ID]++
		u := used[name]
		if i := s.m.Insts[o.ID]; i != nil && (i.State == wire.Failed || i.State == wire.Terminated) && i.Worker == name {
			continue // it does not run, and is looking for another place
		} else if i != nil && state.Asleep(i) {
			continue
		}
		u.CPU += o.Spec.Resources.CPU
		u.Memory += o.Spec.Resources.Memory
		used[name] = u
		if i := s.m.Insts[o.ID]; i == nil {
			s.t.Fatalf("order %s without an instance", key)
		}
	}
	for name, u := range used {
		if c := s.m.Workers[name].Info.Capacity; u.CPU > c.CPU || u.Memory > c.Memory {
			s.t.Fatalf("worker %s is overcommitted: %+v of %+v\n%s", name, u, c, s.dump())
		}
	}
	for id, i := range s.m.Insts {
		most := 1
		if i.Volumes != nil && i.Volumes.Work.Do == wire.VolumeUnpack {
			most++
		}
		if i.Shadow != nil {
			most++
		}
		if underWay(i) {
			most++
		}
		if i.Leaving != nil {
			most++
		}
		if orders[id] > most {
			s.t.Fatalf("%s has %d orders in state %s", id, orders[id], i.State)
		}
		if (i.State == wire.Running || i.State == wire.WorkerScheduled) && i.Worker == "" {
			s.t.Fatalf("%s is %s on no worker", id, i.State)
		}
	}
	moving := map[string]int{}
	for id, i := range s.m.Insts {
		if (underWay(i) || i.Leaving != nil) && i.State != wire.Terminated && !i.Draining && s.m.Workers[i.Worker].Draining() {
			if moving[i.Service]++; moving[i.Service] > movesAtOnce {
				s.t.Fatalf("%d of service %s move at once\n%s", moving[i.Service], i.Service, s.dump())
			}
		}
		if underWay(i) && i.Moving.Worker == i.Worker {
			s.t.Fatalf("%s moves to where it is", id)
		}
		if s.m.Leaving[id] != (i.Leaving != nil) {
			s.t.Fatalf("%s is noted wrongly as leaving", id)
		}
	}
	for _, r := range s.m.Routes {
		for _, e := range r.Endpoints {
			i := s.m.Insts[e.Instance]
			if e.Cluster != s.m.Name {
				continue
			}
			runs := i != nil && i.State == wire.Running && i.Ready && i.Worker == e.Worker
			runs = runs || i != nil && e.Asleep && state.Asleep(i) && i.Worker == e.Worker
			// A placement that is lost serves until another one does.
			lost := i != nil && !runs && i.Shadow != nil && i.Shadow.Worker == e.Worker && e.Suspect
			if !runs && !lost || i.Draining {
				s.t.Fatalf("route to %s, which is %+v", e.Instance, i)
			}
		}
	}
}

// answering counts the instances of a service of which a process is ready on a
// worker that can be reached.
func (s *sim) answering(svc string) int {
	ids := map[string]bool{}
	for _, f := range s.fakes {
		for id, st := range f.has {
			if f.alive && f.linked && strings.HasPrefix(id, "app."+svc+".") && st.Phase == wire.PhaseRunning && st.Ready {
				ids[id] = true
			}
		}
	}
	return len(ids)
}

// running counts the processes of a service on workers that are alive.
func (s *sim) running(svc string) int {
	n := 0
	for _, f := range s.fakes {
		for id, st := range f.has {
			if f.alive && strings.HasPrefix(id, "app."+svc+".") && st.Phase == wire.PhaseRunning {
				n++
			}
		}
	}
	return n
}

func (s *sim) inst(id string) *wire.Instance {
	s.t.Helper()
	i := s.m.Insts[id]
	if i == nil {
		s.t.Fatalf("there is no instance %s", id)
	}
	return i
}

func (s *sim) endpoints(svc string) (ready, suspect int) {
	if r := s.m.Routes["app."+svc]; r != nil {
		for _, e := range r.Endpoints {
			if e.Suspect {
				suspect++
			} else {
				ready++
			}
		}
	}
	return ready, suspect
}

func (s *sim) dump() string {
	var b strings.Builder
	for _, i := range s.m.begin().Instances() {
		fmt.Fprintf(&b, "%s %s inc %d on %q ready %v shadow %v moving %+v leaving %v: %s\n", i.ID, i.State, i.Incarnation, i.Worker, i.Ready, i.Shadow, i.Moving, i.Leaving, i.Reason)
	}
	return b.String()
}

// full says of what a worker has too little for an order beside what it runs, "" where it
// has enough or room is not counted.
func (f *fake) full(s *sim, name string, o *wire.Order) string {
	if f.room == nil {
		return ""
	}
	free := *f.room
	for id, st := range f.has {
		if other := s.m.Orders[name+"."+id]; other != nil && id != o.ID && st.Phase == wire.PhaseRunning {
			free = amount.Sub(free, other.Spec.Resources)
		}
	}
	if ok, lacking := amount.Fits(free, o.Spec.Resources); !ok {
		return "not enough room: " + lacking
	}
	return ""
}

// checkDevices: no device is in orders more than once, and what an order has is what
// its service needs.
func (s *sim) checkDevices() {
	s.t.Helper()
	given := map[string]api.Units{}
	for key, o := range s.m.Orders {
		name := strings.TrimSuffix(key, "."+o.ID)
		for _, h := range o.Devices {
			id := name + " " + h.ID
			if given[id] += h.Share; given[id] > 1000 {
				s.t.Fatalf("%s of %s is given\n%s", given[id], id, s.dump())
			}
		}
		there := func(h wire.Held) bool {
			return slices.ContainsFunc(s.m.Workers[name].Info.Devices, func(d wire.Device) bool { return d.ID == h.ID })
		}
		if s.fakes[name].has[o.ID].Phase == wire.PhaseRunning && !slices.ContainsFunc(o.Devices, there) {
			continue // they were there when they were given
		}
		if why := place.Admit(devices(s.m.Workers[name]), o.Devices, o.Spec.Resources, o.Spec.Devices); why != "" {
			s.t.Fatalf("order %s: %s\n%s", key, why, s.dump())
		}
	}
}

// restored puts a copy of the disk in the place of the cluster. What the root wants
// comes when it is heard.
func (s *sim) restored(disk map[string][]byte) {
	s.t.Helper()
	s.disk = maps.Clone(disk)
	s.store(backup.MarkKey, backup.Mark{V: wire.Version, At: s.now, Made: s.now.Add(-time.Hour)})
	s.restart()
}

// hear is an exchange with a root that wants these shares.
func (s *sim) hear(given map[string]*wire.Share) {
	clear(s.m.Given)
	maps.Copy(s.m.Given, given)
	for key, sh := range given {
		s.store(state.KeyShare+key, sh)
	}
	s.m.effect()
	s.m.Recovery.Heard = true
}

func volume(v *api.Service) {
	zero := api.Duration(0)
	v.ReplaceAfter, v.Volumes = &zero, []api.Volume{{Path: "data", Name: "db"}}
}
