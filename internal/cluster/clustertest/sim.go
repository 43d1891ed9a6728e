package clustertest

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
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/wire"
)

// Sim is a cluster's model with workers that do as they are told, in virtual
// time: the same step as the live loop, nothing of its I/O.
type Sim struct {
	T       testing.TB // it fails when an invariant does not hold
	Model   *state.Model
	Now     time.Time
	Disk    map[string][]byte  // what a store would hold
	Workers map[string]*Worker // by name
	marks   uint64             // restarts that were asked for
	Events  []string           // texts of what the cluster decided and heard
}

// Worker is a worker: it runs its orders while it is alive, and reports them
// while it is linked.
type Worker struct {
	Alive, Linked bool
	Statuses      map[string]wire.InstanceStatus
	// Broken says how a service ends on this worker: "exit", "complete" or "refuse".
	Broken map[string]string
	// Ends says how a run of an instance of a job ends here, and after how many reports; nil
	// goes on.
	Ends func(o *wire.Order) (code *wire.Exit, after int)
	// Slow is how many reports it takes until what was started is ready.
	Slow   int
	warm   map[string]int // reports since the start, by instance
	Starts int
	// Room is what it really has; nil: enough for whatever it is given.
	Room     *api.Resources
	Refusals int
	seq      uint64
	// Volumes does what an order asks for of volumes; nil does it at once, and well.
	Volumes func(w *wire.VolumeWork) *wire.VolumeReport
	Lease   *wire.Lease // of the network, as it was told
}

// NewSim is a cluster with workers of one core each, and with a lease of addresses.
func NewSim(t testing.TB, workers ...string) *Sim {
	s := &Sim{T: t, Now: time.Unix(1e9, 0), Disk: map[string][]byte{}, Workers: map[string]*Worker{}}
	s.Model = state.NewModel("edge", true, s.Now)
	netlease.NetworkOf(s.Model).Signs = "key"
	s.GrantLease(wire.ClusterLease{
		V: wire.Version, Cluster: "edge", Index: 3, Prefix: netip.MustParsePrefix("fd01:203:405::/48"),
		Pool: lease.DefaultPool, Services: lease.DefaultServices,
		Numbers: []wire.Block{{From: 100, N: 40}}, Subnets: []wire.Block{{From: 7, N: 3}},
	})
	for _, w := range workers {
		s.AddWorker(w)
	}
	return s
}

// GrantLease is what the root gives of the network.
func (s *Sim) GrantLease(l wire.ClusterLease) {
	netlease.BlocksTable.Rows(s.Model.DB)[""] = &l
	s.Store(netlease.KeyBlocks+"net", l)
}

// AddWorker lets a worker join.
func (s *Sim) AddWorker(name string) {
	info := wire.WorkerInfo{
		V: wire.Version, Name: name, Runtimes: []string{"process"}, Address: name + ":8474",
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 10 << 30}, Arch: "amd64",
	}
	rec := state.WorkerRecord{V: wire.Version, Info: info}
	s.Model.Workers[name] = state.NewWorker(rec, s.Now)
	s.Store(state.KeyWorker+name, rec)
	s.Workers[name] = &Worker{Alive: true, Linked: true, Statuses: map[string]wire.InstanceStatus{},
		warm:   map[string]int{},
		Broken: map[string]string{}}
}

// Cordon takes a worker out of use, or (nil) into use again.
func (s *Sim) Cordon(name string, c *wire.Cordon) {
	w := s.Model.Workers[name]
	w.Cordon = c
	s.Store(state.KeyWorker+name, w.WorkerRecord)
}

// Store writes a record.
func (s *Sim) Store(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Disk[key] = b
}

// Share delegates n instances of a service, as the root would.
func (s *Sim) Share(svc string, n int, change func(*api.Service)) {
	spec := &api.Service{
		Runtime: "process", Command: []string{"x"}, Resources: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20},
		Ports: []api.Port{{Name: "http", Protocol: "http"}}, Spread: "soft", Scheduler: "rom",
		Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
		Restart: api.Restart{Policy: "always"},
	}
	if change != nil {
		change(spec)
	}
	sh := &wire.Share{V: wire.Version, App: "app", Service: svc, Revision: 1, Min: n, Max: n,
		Ordinals: []wire.Span{{To: n}}, Spec: spec}
	if old := s.Model.FromRoot["app."+svc]; old != nil {
		sh.Revision, sh.Restart, sh.RestartOf = old.Revision+1, old.Restart, old.RestartOf
	}
	s.Model.FromRoot["app."+svc] = sh
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app."+svc, sh)
}

// MarkRestart marks a service, or one ordinal of it (≥ 0), to be started again.
func (s *Sim) MarkRestart(svc string, ordinal int) uint64 {
	old := s.Model.FromRoot["app."+svc]
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
	s.Model.FromRoot["app."+svc] = &next
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app."+svc, &next)
	return s.marks
}

// Resume lets the rollouts of all services that have failed try again.
func (s *Sim) Resume() {
	for key, sh := range s.Model.FromRoot {
		next := *sh
		h := wire.Hold{}
		if sh.Hold != nil {
			h = *sh.Hold
		}
		h.Paused = false
		h.Resumed++
		next.Hold = &h
		s.Model.FromRoot[key] = &next
		s.Store(state.KeyShare+key, &next)
	}
	reconcile.Effect(s.Model)
}

// Unshare takes a service away, as the root would.
func (s *Sim) Unshare(svc string) {
	delete(s.Model.FromRoot, "app."+svc)
	reconcile.Effect(s.Model)
	delete(s.Disk, state.KeyShare+"app."+svc)
}

// Tick lets d pass and everybody act once.
func (s *Sim) Tick(d time.Duration) {
	s.Now = s.Now.Add(d)
	for name, f := range s.Workers {
		f.Act(s, name)
	}
	for range rehearsal.MaxRounds {
		t := reconcile.Step(s.Model, s.Now)
		checkIndex(s.T, t)
		groups, err := t.Encode()
		if err != nil {
			s.T.Fatal(err)
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			s.apply(g)
		}
		t.Done()
		for _, e := range t.Events {
			s.Events = append(s.Events, e.Subject()+" "+e.Text)
			if strings.HasPrefix(e.Text, "refused") {
				s.T.Fatalf("%s: %s", e.Subject(), e.Text)
			}
		}
	}
	if groups, err := reconcile.Step(s.Model, s.Now).Encode(); err != nil || len(groups) > 0 {
		s.T.Fatalf("a pass does not settle: %v %s\n%s", err, groups[0][0].Key, s.Dump())
	}
	s.Model.Recovery.Settled = !s.Model.Unasked(state.TheRoot)
	s.check()
}

// Ticks makes n ticks of d.
func (s *Sim) Ticks(n int, d time.Duration) {
	for range n {
		s.Tick(d)
	}
}

func (s *Sim) apply(ops []bus.Op) {
	seen := map[string]bool{}
	for _, op := range ops {
		if seen[op.Key] {
			s.T.Fatalf("key %s twice in one group", op.Key)
		}
		seen[op.Key] = true
		if op.Delete {
			delete(s.Disk, op.Key)
		} else {
			s.Disk[op.Key] = op.Value
		}
	}
}

// Restart is a new process on the same store: it knows nothing of before.
func (s *Sim) Restart() {
	s.Model = state.NewModel("edge", true, s.Now)
	netlease.NetworkOf(s.Model).Signs = "key"
	for key, value := range s.Disk {
		if _, err := s.Model.DB.Load(bus.Entry{Key: key, Value: value}); err != nil {
			s.T.Fatal(err)
		}
	}
	s.Model.Loaded(s.Now)
	proximity.RecallMoves(s.Model, s.Now)
}

// Act runs the worker's orders and reports.
func (f *Worker) Act(s *Sim, name string) {
	w := s.Model.Workers[name]
	if !f.Alive || !f.Linked {
		if !w.Suspect && w.EverHeard {
			w.Suspect, w.Since, w.Connected = true, s.Now, false
		}
		if !f.Alive {
			f.Statuses = map[string]wire.InstanceStatus{}
		}
		return
	}
	if s.Model.Silent(name) { // it is told nothing, and keeps what it has
		f.report(w, s.Now)
		return
	}
	if netlease.ToldTable.Rows(s.Model.DB)[name] != nil {
		if next := netlease.LeaseTable.Rows(s.Model.DB)[name].Lease; f.Lease != nil &&
			(f.Lease.Number != next.Number || f.Lease.IPv4.IsValid() && f.Lease.IPv4 != next.IPv4) {
			s.T.Fatalf("%s had %+v and is given %+v", name, *f.Lease, next)
		} else {
			f.Lease = &next
		}
	}
	for id, st := range f.Statuses {
		o := s.Model.Orders[name+"."+id]
		switch {
		case o == nil:
			delete(f.Statuses, id)
		case o.Stop && st.Phase == wire.PhaseRunning:
			st.Phase, st.Ready = wire.PhaseStopped, false
			f.Statuses[id] = st
		}
	}
	f.work(s, name)
	for id, st := range f.Statuses {
		o := s.Model.Orders[name+"."+id]
		if f.Ends == nil || o == nil || o.Job == nil || st.Phase != wire.PhaseRunning {
			continue
		}
		if e, after := f.Ends(o); e != nil && f.warm[id] >= after {
			st.Phase, st.Ready, st.LastExit, st.Cause, st.Why = wire.PhaseExited, false, e, wire.CauseExited,
				life.Describe(*e)+", the restart policy is never"
			f.Statuses[id] = st
		}
	}
	for id, st := range f.Statuses {
		if f.warm[id]++; st.Phase == wire.PhaseRunning && f.warm[id] >= f.Slow {
			st.Ready = true
			f.Statuses[id] = st
		}
	}
	for key, o := range s.Model.Orders {
		if !strings.HasPrefix(key, name+".") || o.Stop {
			continue
		}
		if st, ok := f.Statuses[o.ID]; ok && st.Incarnation == o.Incarnation {
			st.Revision = o.Revision
			f.Statuses[o.ID] = st
			continue
		}
		f.Starts++
		f.warm[o.ID] = 0
		st := wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision,
			Phase: wire.PhaseRunning, Ready: f.Slow == 0}
		st.Addrs = f.addrs(o)
		if o.Sleep != nil && !o.Sleep.Awake {
			st.Phase, st.Ready, st.Asleep = wire.PhasePending, false, true
		}
		switch f.Broken[o.Service] {
		case "exit":
			st.Phase, st.Ready, st.LastExit, st.Cause, st.Why = wire.PhaseExited, false, &wire.Exit{Code: 7}, wire.CauseExited,
				"exited with 7, 5 restarts in a row"
		case "complete":
			st.Phase, st.Ready, st.LastExit = wire.PhaseExited, false, &wire.Exit{}
		case "refuse":
			st.Phase, st.Ready, st.Why = wire.PhaseRefused, false, "needs 64Mi memory, 1Mi free"
		}
		if why := f.full(s, name, o); why != "" {
			st.Phase, st.Ready, st.Why = wire.PhaseRefused, false, why
			f.Refusals++
		}
		f.Statuses[o.ID] = st
	}
	f.report(w, s.Now)
}

// report brings the cluster's copy up to date, as the exchange would.
func (f *Worker) report(w *state.Worker, now time.Time) {
	f.seq++
	rep := wire.Report{V: wire.Version, To: wire.Rev{Inc: "agent", N: f.seq}}
	w.Current = true // it has acted on all of its orders
	w.Status = map[string]wire.InstanceStatus{}
	for id, st := range f.Statuses {
		w.Status[id] = st
		b, _ := json.Marshal(st)
		rep.Changes = append(rep.Changes, wire.Change{Key: id, Value: b})
	}
	w.Inbox.Accept(rep)
	w.Heard, w.EverHeard, w.Connected, w.Suspect = now, true, true, false
	w.Info.Lease = f.Lease
}

// addrs are what a worker gives an instance.
func (f *Worker) addrs(o *wire.Order) []netip.Addr {
	if f.Lease == nil || o.AppNumber == 0 {
		return nil
	}
	b := f.Lease.Prefix.Addr().As16()
	binary.BigEndian.PutUint32(b[6:], f.Lease.Number)
	binary.BigEndian.PutUint32(b[9:], o.AppNumber|uint32(b[9])<<24)
	b[15] = byte(o.Ordinal + 1)
	out := []netip.Addr{netip.AddrFrom16(b)}
	if f.Lease.IPv4.IsValid() {
		out = append(out, f.Lease.IPv4.Addr().Next())
	}
	return out
}

// checkNetwork: nothing of the network has two owners, and what is said of an
// address is what its worker gave.
func (s *Sim) checkNetwork() {
	s.T.Helper()
	numbers, subnets := map[uint32]string{}, map[netip.Prefix]string{}
	for name, f := range s.Workers {
		if f.Lease == nil {
			continue
		}
		if other := numbers[f.Lease.Number]; other != "" {
			s.T.Fatalf("%s and %s have number %d", other, name, f.Lease.Number)
		}
		if other := subnets[f.Lease.IPv4]; other != "" && f.Lease.IPv4.IsValid() {
			s.T.Fatalf("%s and %s have %s", other, name, f.Lease.IPv4)
		}
		numbers[f.Lease.Number], subnets[f.Lease.IPv4] = name, name
	}
	for _, r := range s.Model.Routes {
		for _, e := range r.Endpoints {
			f := s.Workers[e.Worker]
			if e.Cluster != s.Model.Name || f == nil {
				continue
			}
			if st, ok := f.Statuses[e.Instance]; ok && f.Alive && f.Linked && !s.Model.Silent(e.Worker) &&
				!slices.Equal(st.Addrs, e.Addrs) {
				s.T.Fatalf("%s has %v, its route says %v", e.Instance, st.Addrs, e.Addrs)
			}
		}
	}
}

// check holds what must be true after every pass.
func (s *Sim) check() {
	s.T.Helper()
	s.checkNetwork()
	s.checkDevices()
	used := map[string]api.Resources{}
	orders := map[string]int{}
	for key, o := range s.Model.Orders {
		name := strings.TrimSuffix(key, "."+o.ID)
		orders[o.ID]++
		u := used[name]
		if i := s.Model.Insts[o.ID]; i != nil && (i.State == wire.Failed || i.State == wire.Terminated) &&
			i.Worker == name {
			continue // it does not run, and is looking for another place
		} else if i != nil && state.Asleep(i) {
			continue
		}
		u.CPU += o.Spec.Resources.CPU
		u.Memory += o.Spec.Resources.Memory
		used[name] = u
		if i := s.Model.Insts[o.ID]; i == nil {
			s.T.Fatalf("order %s without an instance", key)
		}
	}
	for name, u := range used {
		if c := s.Model.Workers[name].Info.Capacity; u.CPU > c.CPU || u.Memory > c.Memory {
			s.T.Fatalf("worker %s is overcommitted: %+v of %+v\n%s", name, u, c, s.Dump())
		}
	}
	for id, i := range s.Model.Insts {
		most := 1
		if i.Volumes != nil && i.Volumes.Work.Do == wire.VolumeUnpack {
			most++
		}
		if i.Shadow != nil {
			most++
		}
		if state.UnderWay(i) {
			most++
		}
		if i.Leaving != nil {
			most++
		}
		if orders[id] > most {
			s.T.Fatalf("%s has %d orders in state %s", id, orders[id], i.State)
		}
		if (i.State == wire.Running || i.State == wire.WorkerScheduled) && i.Worker == "" {
			s.T.Fatalf("%s is %s on no worker", id, i.State)
		}
	}
	moves := map[string]int{}
	for id, i := range s.Model.Insts {
		if (state.UnderWay(i) || i.Leaving != nil) && i.State != wire.Terminated && !i.Draining &&
			s.Model.Workers[i.Worker].Draining() {
			if moves[i.Service]++; moves[i.Service] > moving.MovesAtOnce {
				s.T.Fatalf("%d of service %s move at once\n%s", moves[i.Service], i.Service, s.Dump())
			}
		}
		if state.UnderWay(i) && i.Moving.Worker == i.Worker {
			s.T.Fatalf("%s moves to where it is", id)
		}
		if s.Model.Leaving[id] != (i.Leaving != nil) {
			s.T.Fatalf("%s is noted wrongly as leaving", id)
		}
	}
	for _, r := range s.Model.Routes {
		for _, e := range r.Endpoints {
			i := s.Model.Insts[e.Instance]
			if e.Cluster != s.Model.Name {
				continue
			}
			runs := i != nil && i.State == wire.Running && i.Ready && i.Worker == e.Worker
			runs = runs || i != nil && e.Asleep && state.Asleep(i) && i.Worker == e.Worker
			// A placement that is lost serves until another one does.
			lost := i != nil && !runs && i.Shadow != nil && i.Shadow.Worker == e.Worker && e.Suspect
			if !runs && !lost || i.Draining {
				s.T.Fatalf("route to %s, which is %+v", e.Instance, i)
			}
		}
	}
}

// Answering counts the instances of a service of which a process is ready on a
// worker that can be reached.
func (s *Sim) Answering(svc string) int {
	ids := map[string]bool{}
	for _, f := range s.Workers {
		for id, st := range f.Statuses {
			if f.Alive && f.Linked && strings.HasPrefix(id, "app."+svc+".") && st.Phase == wire.PhaseRunning &&
				st.Ready {
				ids[id] = true
			}
		}
	}
	return len(ids)
}

// Running counts the processes of a service on workers that are alive.
func (s *Sim) Running(svc string) int {
	n := 0
	for _, f := range s.Workers {
		for id, st := range f.Statuses {
			if f.Alive && strings.HasPrefix(id, "app."+svc+".") && st.Phase == wire.PhaseRunning {
				n++
			}
		}
	}
	return n
}

// Instance is an instance by its id; a test that asks for one that is missing ends.
func (s *Sim) Instance(id string) *wire.Instance {
	s.T.Helper()
	i := s.Model.Insts[id]
	if i == nil {
		s.T.Fatalf("there is no instance %s", id)
	}
	return i
}

// Endpoints counts the endpoints of a service in its route.
func (s *Sim) Endpoints(svc string) (ready, suspect int) {
	if r := s.Model.Routes["app."+svc]; r != nil {
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

// Dump is the state of all instances and workers as text.
func (s *Sim) Dump() string {
	var b strings.Builder
	for _, i := range s.Model.Begin().Instances() {
		fmt.Fprintf(&b, "%s %s inc %d on %q ready %v shadow %v moving %+v leaving %v: %s\n", i.ID, i.State,
			i.Incarnation, i.Worker, i.Ready, i.Shadow, i.Moving, i.Leaving, i.Reason)
	}
	return b.String()
}

// full says of what a worker has too little for an order beside what it runs, "" where it
// has enough or room is not counted.
func (f *Worker) full(s *Sim, name string, o *wire.Order) string {
	if f.Room == nil {
		return ""
	}
	free := *f.Room
	for id, st := range f.Statuses {
		if other := s.Model.Orders[name+"."+id]; other != nil && id != o.ID && st.Phase == wire.PhaseRunning {
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
func (s *Sim) checkDevices() {
	s.T.Helper()
	given := map[string]api.Units{}
	for key, o := range s.Model.Orders {
		name := strings.TrimSuffix(key, "."+o.ID)
		for _, h := range o.Devices {
			id := name + " " + h.ID
			if given[id] += h.Share; given[id] > 1000 {
				s.T.Fatalf("%s of %s is given\n%s", given[id], id, s.Dump())
			}
		}
		there := func(h wire.Held) bool {
			return slices.ContainsFunc(s.Model.Workers[name].Info.Devices, func(d wire.Device) bool { return d.ID == h.ID })
		}
		if s.Workers[name].Statuses[o.ID].Phase == wire.PhaseRunning && !slices.ContainsFunc(o.Devices, there) {
			continue // they were there when they were given
		}
		if why := device.Admit(fleet.Devices(s.Model.Workers[name]), o.Devices, o.Spec.Resources,
			o.Spec.Devices); why != "" {
			s.T.Fatalf("order %s: %s\n%s", key, why, s.Dump())
		}
	}
}

// RestoreFrom puts a copy of the disk in the place of the cluster. What the root wants
// comes when it is heard.
func (s *Sim) RestoreFrom(disk map[string][]byte) {
	s.T.Helper()
	s.Disk = maps.Clone(disk)
	s.Store(backup.MarkKey, backup.Mark{V: wire.Version, At: s.Now, Made: s.Now.Add(-time.Hour)})
	s.Restart()
}

// HearRoot is an exchange with a root that wants these shares.
func (s *Sim) HearRoot(given map[string]*wire.Share) {
	clear(s.Model.FromRoot)
	maps.Copy(s.Model.FromRoot, given)
	for key, sh := range given {
		s.Store(state.KeyShare+key, sh)
	}
	reconcile.Effect(s.Model)
	s.Model.RootHeard = true
}

// Volume gives a service a volume, and replaces it at once when its worker is lost.
func Volume(v *api.Service) {
	zero := api.Duration(0)
	v.ReplaceAfter, v.Volumes = &zero, []api.Volume{{Path: "data", Name: "db"}}
}

// Moves counts moves of a service, by the history of its instance.
func (s *Sim) Moves(id string) (n int) {
	for _, h := range s.Instance(id).History {
		if h.Because() == wire.CauseMoved {
			n++
		}
	}
	return n
}

// Placed counts the instances of a service on each worker.
func (s *Sim) Placed(svc string) map[string]int {
	out := map[string]int{}
	for _, i := range s.Model.Insts {
		if i.Service == svc && i.State == wire.Running {
			out[i.Worker]++
		}
	}
	return out
}

// UpdateInfo changes what a worker says about itself.
func (s *Sim) UpdateInfo(name string, change func(*wire.WorkerInfo)) {
	w := s.Model.Workers[name]
	rec := w.WorkerRecord
	change(&rec.Info)
	w.Learn(rec, s.Model.Site.Labels)
	s.Store(state.KeyWorker+name, rec)
}

// SetCPU gives each worker of a sim room for so much cpu.
func (s *Sim) SetCPU(n int64) {
	for name, w := range s.Model.Workers {
		w.Info.Capacity.CPU = api.CPU(n)
		s.Store(state.KeyWorker+name, w.WorkerRecord)
	}
	s.Ticks(3, time.Second)
}

// SetDevices gives a worker of a sim devices, as "gpu a10".
func (s *Sim) SetDevices(name string, texts ...string) {
	s.UpdateInfo(name, func(info *wire.WorkerInfo) {
		info.Devices = nil
		for _, text := range texts {
			typ, model, _ := strings.Cut(text, " ")
			n := int(wire.DeviceUnits(info.Devices, typ) / 1000)
			info.Devices = append(info.Devices, wire.Device{ID: fmt.Sprint(typ, n), Type: typ, Model: model})
		}
		info.Capacity.VGPUs = wire.DeviceUnits(info.Devices, api.DeviceGPU)
	})
}

// Processes are what runs, with how often each worker has started anything.
func (s *Sim) Processes() map[string]int {
	out := map[string]int{}
	for name, f := range s.Workers {
		for id, st := range f.Statuses {
			if st.Phase == wire.PhaseRunning {
				out[name+"/"+id] = st.Incarnation
			}
		}
		out[name+" starts"] = f.Starts
	}
	return out
}

// Starts of all workers so far.
func (s *Sim) Starts() (n int) {
	for _, f := range s.Workers {
		n += f.Starts
	}
	return n
}

// Restarts is how many incarnations of what there is came after a first one.
func Restarts(m *state.Model) (n int) {
	for _, i := range m.Insts {
		n += i.Incarnation - 1
	}
	return n
}

// Devices counts the devices that the orders of a service have, as "w1 gpu0 0.5".
func (s *Sim) Devices(svc string) map[string]int {
	out := map[string]int{}
	for key, o := range s.Model.Orders {
		if o.Service != svc {
			continue
		}
		for _, h := range o.Devices {
			out[strings.TrimSuffix(key, "."+o.ID)+" "+h.ID+" "+h.Share.String()]++
		}
	}
	return out
}
