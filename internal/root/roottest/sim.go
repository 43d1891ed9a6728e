package roottest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/edits"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Sim is a root's model with clusters that do as they are told, in virtual time.
type Sim struct {
	T        *testing.T // it fails when an invariant does not hold
	Model    *state.Model
	Now      time.Time
	Disk     map[string][]byte   // what a store would hold
	Clusters map[string]*Cluster // by name
	Events   []string            // texts of what the root decided
	Sized    bool                // clusters tell how much there is, free or not
}

// Cluster is a cluster: it runs its shares, even while it is cut off, and reports
// while it is linked.
type Cluster struct {
	Linked       bool
	shares       map[string]wire.Share    // as it fetched them last
	Running      map[string]wire.Reported // by the id of the instance
	Room         int                      // instances it can take
	ClaimedRoom  int                      // instances that it says it can take beyond that
	Stuck        bool                     // what it starts again does not become ready
	Busy         int                      // restarts
	Lost         bool                     // its workers are away, with what runs on them
	HostPaths    bool                     // its workers let host paths be used
	Seq          uint64                   // reports so far
	Lease        *wire.ClusterLease       // as it fetched it last
	grown        int                      // workers that it ever had
	Location     *api.Point               // where its worker is; nil: it does not know
	SLAViolation string                   // why it does not keep agreements
	MakesRoomFor string                   // for what all that runs there is to make room
	Remote       bool                     // its worker is too far for whatever has an agreement
	HoldsJobs    bool                     // what it runs of jobs does not end
	Completed    []string                 // indexes that it has completed, as instance/index
	Objects      []wire.ObjectMark        // objects that it has
}

// NewSim is a root with clusters that have room for ten instances each.
func NewSim(t *testing.T, clusters ...string) *Sim {
	s := &Sim{T: t, Now: time.Unix(1e9, 0), Disk: map[string][]byte{}, Clusters: map[string]*Cluster{}}
	s.Model = state.NewModel(time.Minute)
	// Small enough to be used up.
	net := grant.NewNetwork([5]byte{1, 2, 3, 4, 5}, netip.MustParsePrefix("10.128.0.0/18"), lease.DefaultServices)
	state.NetworkTable.Rows(s.Model.DB)[""] = &net
	s.Store(state.KeyNetwork, net)
	for _, name := range clusters {
		rec := state.ClusterRecord{V: wire.Version, Name: name, Areas: []string{"area-" + name}}
		s.Model.Clusters[name] = state.NewCluster(rec, s.Now)
		s.Store(state.KeyCluster+name, rec)
		s.Clusters[name] = &Cluster{Linked: true, shares: map[string]wire.Share{}, Running: map[string]wire.Reported{},
			Room: 10}
	}
	s.Tick(0)
	return s
}

// Store writes a record.
func (s *Sim) Store(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.T.Fatal(err)
	}
	s.Disk[key] = b
}

// Apply applies an application with one service.
func (s *Sim) Apply(name string, replicas int, change func(*api.Service)) {
	svc := &api.Service{
		Runtime: "process", Command: []string{"x"}, Replicas: api.Replicas{Min: replicas, Max: replicas},
		Resources: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20},
		Ports:     []api.Port{{Name: "http", Protocol: "http"}},
		Spread:    "soft", Scheduler: "rom", Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
	}
	if change != nil {
		change(svc)
	}
	app := &record.Application{V: wire.Version, Name: name, Revision: 1,
		Spec: &api.Application{Application: name, Services: map[string]*api.Service{"web": svc}}}
	if old := s.Model.Apps[name]; old != nil {
		app.Revision, app.Restarts, app.Number = old.Revision+1, old.Restarts, old.Number
	}
	s.Model.Apps[name] = app
	s.Store(state.KeyApp+name, app)
}

// Restart asks for a restart of an application, or of one ordinal of it (≥ 0).
func (s *Sim) Restart(name string, ordinal int) uint64 {
	old := s.Model.Apps[name]
	if old == nil || !old.Deleting.IsZero() {
		return 0
	}
	q := apiv1.RestartRequest{Service: "web"}
	if ordinal >= 0 {
		q.Ordinal = &ordinal
	}
	next := *old
	n := edits.NextRestart(s.Model, old)
	next.Restarts = edits.Marked(s.Model, old, q, wire.Restart{N: n, By: "admin"})
	s.Model.Apps[name] = &next
	s.Store(state.KeyApp+name, next)
	return n
}

// Delete asks for the end of an application.
func (s *Sim) Delete(name string) {
	if app := s.Model.Apps[name]; app != nil {
		next := *app
		next.Deleting = s.Now
		s.Model.Apps[name] = &next
		s.Store(state.KeyApp+name, next)
	}
}

// Tick lets d pass and everybody act once.
func (s *Sim) Tick(d time.Duration) {
	s.Now = s.Now.Add(d)
	for name, f := range s.Clusters {
		f.Act(s, name)
	}
	s.Pass()
	s.Model.Settled = !recovery.Holding(s.Model, s.Now)
	s.Check()
}

// Pass lets the root decide until nothing is left to do.
func (s *Sim) Pass() {
	overflow.Lull(s.Model, s.Now)
	for range 8 {
		t := reconcile.Step(s.Model, s.Now)
		groups, err := t.Encode()
		if err != nil {
			s.T.Fatal(err)
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			for _, op := range g {
				if op.Delete {
					delete(s.Disk, op.Key)
				} else {
					s.Disk[op.Key] = op.Value
				}
			}
		}
		t.Done()
		for _, e := range t.Events {
			s.Events = append(s.Events, e.Subject()+": "+e.Text)
			if strings.HasPrefix(e.Text, "refused") {
				s.T.Fatalf("%s: %s", e.Subject(), e.Text)
			}
		}
	}
	if groups, err := reconcile.Step(s.Model, s.Now).Encode(); err != nil || len(groups) > 0 {
		s.T.Fatalf("a pass does not settle: %v %s", err, groups[0][0].Key)
	}
}

// Ticks makes n ticks of d.
func (s *Sim) Ticks(n int, d time.Duration) {
	for range n {
		s.Tick(d)
	}
}

// Reopen is a new process on the same store.
func (s *Sim) Reopen() {
	s.Model = state.NewModel(time.Minute)
	for key, value := range s.Disk {
		if _, err := s.Model.DB.Load(bus.Entry{Key: key, Value: value}); err != nil {
			s.T.Fatal(err)
		}
	}
	s.Model.Loaded(s.Now)
	placement.RecallMoves(s.Model, s.Now)
}

// Act fetches the shares, runs them, and reports.
func (f *Cluster) Act(s *Sim, name string) {
	c := s.Model.Clusters[name]
	if !f.Linked {
		if !c.Suspect {
			c.Suspect, c.Since, c.Connected = true, s.Now, false
		}
		return
	}
	if recovery.Unasked(s.Model, name) {
		c.Held = &state.Holdings{Lost: true, Lease: f.Lease} // as it would answer
		for _, key := range records.SortedKeys(f.shares) {
			c.Held.Shares = append(c.Held.Shares, f.shares[key])
		}
	}
	if !recovery.Silent(s.Model, name) {
		f.Lease = state.LeaseTable.Rows(s.Model.DB)[name]
		f.shares = map[string]wire.Share{}
		for key, sh := range s.Model.Shares {
			if rest, ok := strings.CutPrefix(key, name+"."); ok {
				f.shares[rest] = *sh
			}
		}
	}
	wanted := map[string]wire.Share{}
	for _, sh := range f.shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				wanted[state.InstanceID(sh.App, sh.Service, o)] = sh
			}
		}
	}
	for id := range f.Running {
		if _, ok := wanted[id]; !ok {
			delete(f.Running, id)
		}
	}
	taken := 0
	for _, r := range f.Running {
		if r.State == wire.Running {
			taken++
		}
	}
	for _, id := range records.SortedKeys(wanted) {
		sh := wanted[id]
		r, ok := f.Running[id]
		if !ok {
			r = wire.Reported{Instance: wire.Instance{V: wire.Version, ID: id, App: sh.App, Service: sh.Service,
				Cluster: name}}
		}
		switch {
		case f.Lost && r.State == wire.Running:
			r.State, r.Ready, r.Retained, r.Reason = wire.Requested, false, true, "its worker is away"
		case !f.Lost && r.Retained:
			r.State, r.Ready, r.Retained, r.Reason = wire.Running, true, false, ""
			taken++
		}
		if sh.Spec.Job != nil {
			r.Revision = sh.Revision
			f.Running[id] = f.job(id, &sh, r)
			continue
		}
		program := sh.Spec.ProgramID()
		switch {
		case r.State != wire.Running, r.Program == "":
			r.Program = program
		case r.Program != program && sh.Hold != nil && sh.Hold.Paused:
			f.says(c, &sh, wire.RolloutPaused, "")
		case r.Program != program && slices.Contains(sh.Spec.Command, "bad"):
			f.says(c, &sh, wire.RolloutFailed, "web.0: exited with 1")
		case r.Program != program:
			r.Program, r.Ready, f.Busy = program, false, f.Busy+1
			f.says(c, &sh, wire.RolloutDone, "")
		}
		if r.Program == program {
			r.Revision = sh.Revision
		}
		r.Ordinal, _ = strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
		n := sh.RestartOf[r.Ordinal].N
		if sh.Restart != nil {
			n = max(n, sh.Restart.N)
		}
		switch {
		case r.State == wire.Running && r.Restarted < n:
			// Once started again it takes a while to be ready.
			r.Ready, r.Restarted, f.Busy = false, n, f.Busy+1
		case r.State == wire.Running && !r.Ready && !f.Stuck:
			r.Ready = true
		case r.State == wire.Running:
		case !f.HostPaths && slices.ContainsFunc(sh.Spec.Volumes, func(v api.Volume) bool { return v.Host != "" }):
			r.State, r.Ready, r.Reason = wire.Requested, false, "no worker lets the host path be used"
		case f.Remote && len(sh.Spec.Latency) > 0:
			r.State, r.Ready, r.Reason = wire.Requested, false,
				"1 worker: 1 is not within "+sh.Spec.Latency[0].Max.String()+" of "+sh.Spec.Latency[0].To+": 70.0ms away"
		case taken < f.Room && !f.Lost:
			taken++
			r.Restarted = n
			r.State, r.Ready, r.Address, r.Peer = wire.Running, true, name+":8474", "w-1"
		case r.Retained:
		default:
			r.State, r.Reason = wire.Requested, "full"
		}
		if r.SLAViolation = ""; r.State == wire.Running && len(sh.Spec.Latency) > 0 {
			r.SLAViolation = f.SLAViolation
		}
		if r.Room = nil; r.State == wire.Running && f.MakesRoomFor != "" {
			r.Room = &wire.RoomAsk{Since: s.Now, For: f.MakesRoomFor}
		}
		f.Running[id] = r
	}
	f.Seq++
	rep := wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: f.Seq}}
	c.Seen = map[string]*wire.Reported{}
	for id, r := range f.Running {
		c.Seen[id] = &r
		b, _ := json.Marshal(r)
		rep.Changes = append(rep.Changes, wire.Change{Key: id, Value: b})
	}
	c.Inbox.Accept(rep)
	free := float64(f.Room + f.ClaimedRoom - taken)
	if f.Lost {
		free = 0
	}
	sp := func(x float64) wire.Spread { return wire.Spread{Sum: free * x, Mean: free * x, Max: free * x} }
	c.Aggregate = &wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"},
		FreeCapacity: wire.FreeCapacity{CPU: sp(100), Memory: sp(64 << 20), Disk: sp(1 << 20)}}
	if s.Sized {
		c.Aggregate.Capacity = amount.Times(api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20}, f.Room)
	}
	if f.Location != nil {
		c.Aggregate.Architectures, c.Aggregate.Disc = map[string]int{"amd64": 1},
			&wire.Disc{Center: *f.Location, RadiusKm: 5, Workers: 1}
	}
	c.Aggregate.Objects = wire.PackMarks(f.Objects)
	f.grown = min(f.grown+1, 40)
	c.Aggregate.Network = lease.Need(f.Lease, nil, f.grown, s.Now)
	c.Heard, c.EverHeard, c.Connected, c.Suspect, c.Current = s.Now, true, true, false, true
}

// says reports how far the rollout of a share is.
func (f *Cluster) says(c *state.Cluster, sh *wire.Share, phase, why string) {
	if c.Rollouts == nil {
		c.Rollouts = map[string]*wire.RolloutReport{}
	}
	c.Rollouts[sh.App+"."+sh.Service] = &wire.RolloutReport{V: wire.Version, Cluster: c.Name, App: sh.App,
		Service: sh.Service, Revision: sh.Revision, Program: sh.Spec.ProgramID(), Phase: phase, Why: why,
		Promised: sh.Min}
}

// Check holds what must be true after every pass.
func (s *Sim) Check() {
	s.T.Helper()
	s.checkNetwork()
	given := map[string]string{}
	for key, sh := range s.Model.Shares {
		name, _, _ := strings.Cut(key, ".")
		n := 0
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				id := state.InstanceID(sh.App, sh.Service, o)
				if other, ok := given[id]; ok {
					s.T.Fatalf("%s is delegated to %s and to %s", id, other, name)
				}
				given[id] = name
				n++
			}
		}
		if n != sh.Max || sh.Min != sh.Max {
			s.T.Fatalf("share %s has %d ordinals for min %d max %d", key, n, sh.Min, sh.Max)
		}
	}
}

// checkNetwork: nothing of the network has two owners, whoever thinks so.
func (s *Sim) checkNetwork() {
	s.T.Helper()
	var numbers, subnets []wire.Block
	for name, f := range s.Clusters {
		l := f.Lease
		if l == nil {
			continue
		}
		if len(block.Without(l.Numbers, numbers)) != len(l.Numbers) ||
			len(block.Without(l.Subnets, subnets)) != len(l.Subnets) ||
			block.Count(block.Without(l.Numbers, numbers)) != block.Count(l.Numbers) ||
			block.Count(block.Without(l.Subnets, subnets)) != block.Count(l.Subnets) {
			s.T.Fatalf("%s has what another one has: %+v", name, l)
		}
		numbers, subnets = append(numbers, l.Numbers...), append(subnets, l.Subnets...)
		if block.Count(subnets) > 64 {
			s.T.Fatalf("%d networks of 64 are given", block.Count(subnets))
		}
	}
	seen := map[uint32]string{}
	for name, app := range s.Model.Apps {
		if other := seen[app.Number]; other != "" && app.Number != 0 {
			s.T.Fatalf("%s and %s have number %d", name, other, app.Number)
		}
		seen[app.Number] = name
	}
	for key, sh := range s.Model.Shares {
		if app := s.Model.Apps[sh.App]; !recovery.Holding(s.Model, s.Now) && app != nil && app.Deleting.IsZero() &&
			(sh.AppNumber == 0 || sh.AppNumber != app.Number) {
			s.T.Fatalf("share %s has number %d, its application %d", key, sh.AppNumber, app.Number)
		}
	}
}

// Running counts what runs of an application, on clusters linked or not.
func (s *Sim) Running(app string) (n int) {
	for _, f := range s.Clusters {
		for _, r := range f.Running {
			if r.App == app && r.State == wire.Running {
				n++
			}
		}
	}
	return n
}

// Endpoints counts the endpoints of an application's service web in its route.
func (s *Sim) Endpoints(app string) (ready, suspect int) {
	if r := s.Model.Routes[app+".web"]; r != nil {
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

// Dump is the state of all instances and clusters as text.
func (s *Sim) Dump() string {
	var b strings.Builder
	for _, i := range s.Model.Begin().Instances("") {
		fmt.Fprintf(&b, "%s %s in %q draining %v unreachable %v replaces %q: %s\n", i.ID, i.State, i.Cluster,
			i.Draining, i.Unreachable, i.Replaces, i.Reason)
	}
	for name, f := range s.Clusters {
		fmt.Fprintf(&b, "%s linked %v room %d runs %d\n", name, f.Linked, f.Room, len(f.Running))
	}
	return b.String()
}

// Backup is the disk as a backup has it.
func (s *Sim) Backup() map[string][]byte { return maps.Clone(s.Disk) }

// RestoreFrom puts a copy in the place of the root; a cluster that it does not know
// joins again.
func (s *Sim) RestoreFrom(disk map[string][]byte) {
	s.T.Helper()
	s.Disk = maps.Clone(disk)
	s.Store(backup.MarkKey, backup.Mark{V: wire.Version, At: s.Now, Made: s.Now.Add(-time.Hour)})
	for name := range s.Clusters {
		if s.Disk[state.KeyCluster+name] == nil {
			s.Store(state.KeyCluster+name, state.ClusterRecord{V: wire.Version, Name: name})
		}
	}
	s.Reopen()
}

// job is what a cluster does about one instance of a job: it waits for its turn, runs for
// a tick, and completes.
func (f *Cluster) job(id string, sh *wire.Share, r wire.Reported) wire.Reported {
	o, _ := strconv.Atoi(id[strings.LastIndexByte(id, '.')+1:])
	r.Ordinal = o
	n := sh.RestartOf[o].N
	if sh.Restart != nil {
		n = max(n, sh.Restart.N)
	}
	x, ok := sh.Index[o]
	if !ok {
		x = o
	}
	if r.Program != sh.Spec.ProgramID() || r.Restarted < n {
		r.State, r.Reason, r.Program, r.Restarted = wire.ClusterScheduled, "", sh.Spec.ProgramID(), n
		r.Job = &wire.JobTry{Index: x, Run: 1}
	}
	active := 0
	for _, other := range f.Running {
		if other.Service == r.Service && other.App == r.App && other.State == wire.Running && other.ID != id {
			active++
		}
	}
	switch {
	case f.Room == 0 && r.State == wire.ClusterScheduled:
		r.State, r.Reason = wire.Requested, "full"
	case r.State == wire.ClusterScheduled && active < job.Parallel(sh):
		r.State, r.Ready = wire.Running, true
	case r.State == wire.Running && !f.HoldsJobs:
		r.State, r.Ready, r.Reason = wire.Terminated, false, "completed" // as a version before causes says it
		f.Completed = append(f.Completed, fmt.Sprintf("%s/%d", id, x))
	}
	return r
}

// Cordon takes a cluster out of use, or (nil) into use again.
func (s *Sim) Cordon(name string, c *wire.Cordon) {
	cl := s.Model.Clusters[name]
	cl.Cordon = c
	s.Store(state.KeyCluster+name, cl.ClusterRecord)
}

// RunningIn counts the instances of an application that run in each cluster.
func (s *Sim) RunningIn(app string) map[string]int {
	out := map[string]int{}
	for name, f := range s.Clusters {
		for _, r := range f.Running {
			if r.App == app {
				out[name]++
			}
		}
	}
	return out
}
