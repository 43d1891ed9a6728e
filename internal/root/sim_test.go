package root

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
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// sim is a root's model with clusters that do as they are told, in virtual time.
type sim struct {
	t     *testing.T
	m     *model
	now   time.Time
	disk  map[string][]byte
	fakes map[string]*fake
	told  []string // events of what the root decided
	sized bool     // clusters tell how much there is, free or not
}

// fake is a cluster: it runs its shares, even while it is cut off, and reports
// while it is linked.
type fake struct {
	linked bool
	shares map[string]wire.Share // as it fetched them last
	runs   map[string]wire.Reported
	room   int  // instances it can take
	boasts int  // instances that it says it can take beyond that
	stuck  bool // what it starts again does not become ready
	busy   int  // restarts
	lost   bool // its workers are away, with what runs on them
	paths  bool // its workers let host paths be used
	seq    uint64
	lease  *wire.ClusterLease // as it fetched it last
	grown  int                // workers that it ever had
	at     *api.Point         // where its worker is; nil: it does not know
	unkept string             // why it does not keep agreements
	makes  string             // for what all that runs there is to make room
	remote bool               // its worker is too far for whatever has an agreement
	idle   bool               // what it runs of jobs does not end
	did    []string           // indexes that it has completed, as instance/index
	has    []wire.ObjectMark  // objects that it has
}

func newSim(t *testing.T, clusters ...string) *sim {
	s := &sim{t: t, now: time.Unix(1e9, 0), disk: map[string][]byte{}, fakes: map[string]*fake{}}
	s.m = newModel(time.Minute)
	// Small enough to be used up.
	net := lease.NewNetwork([5]byte{1, 2, 3, 4, 5}, netip.MustParsePrefix("10.128.0.0/18"), lease.DefaultServices)
	networkTable.Rows(s.m.db)[""] = &net
	s.store(networkKey, net)
	for _, name := range clusters {
		rec := clusterRecord{V: wire.Version, Name: name, Areas: []string{"area-" + name}}
		s.m.clusters[name] = newCluster(rec, s.now)
		s.store(keyCluster+name, rec)
		s.fakes[name] = &fake{linked: true, shares: map[string]wire.Share{}, runs: map[string]wire.Reported{}, room: 10}
	}
	s.tick(0)
	return s
}

func (s *sim) store(key string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	s.disk[key] = b
}

// apply applies an application with one service.
func (s *sim) apply(name string, replicas int, change func(*api.Service)) {
	svc := &api.Service{
		Runtime: "process", Command: []string{"x"}, Replicas: api.Replicas{Min: replicas, Max: replicas},
		Resources: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20}, Ports: []api.Port{{Name: "http", Protocol: "http"}},
		Spread: "soft", Scheduler: "rom", Policy: api.Policy{Name: api.PolicyRoundRobin}, OnReturn: "original",
	}
	if change != nil {
		change(svc)
	}
	app := &wire.Application{V: wire.Version, Name: name, Revision: 1, Spec: &api.Application{Application: name, Services: map[string]*api.Service{"web": svc}}}
	if old := s.m.apps[name]; old != nil {
		app.Revision, app.Restarts, app.Number = old.Revision+1, old.Restarts, old.Number
	}
	s.m.apps[name] = app
	s.store(keyApp+name, app)
}

// again asks for a restart of an application, or of one ordinal of it (≥ 0).
func (s *sim) again(name string, ordinal int) uint64 {
	old := s.m.apps[name]
	if old == nil || !old.Deleting.IsZero() {
		return 0
	}
	q := wire.RestartRequest{Service: "web"}
	if ordinal >= 0 {
		q.Ordinal = &ordinal
	}
	next := *old
	n := s.m.nextRestart(old)
	next.Restarts = s.m.marked(old, q, wire.Restart{N: n, By: "admin"})
	s.m.apps[name] = &next
	s.store(keyApp+name, next)
	return n
}

func (s *sim) delete(name string) {
	if app := s.m.apps[name]; app != nil {
		next := *app
		next.Deleting = s.now
		s.m.apps[name] = &next
		s.store(keyApp+name, next)
	}
}

func (s *sim) tick(d time.Duration) {
	s.now = s.now.Add(d)
	for name, f := range s.fakes {
		f.act(s, name)
	}
	s.pass()
	s.m.recovery.settled = !s.m.holding(s.now)
	s.check()
}

// pass lets the root decide until nothing is left to do.
func (s *sim) pass() {
	s.m.lull(s.now)
	for range 8 {
		t := s.m.step(s.now)
		groups, err := t.Encode()
		if err != nil {
			s.t.Fatal(err)
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			for _, op := range g {
				if op.Delete {
					delete(s.disk, op.Key)
				} else {
					s.disk[op.Key] = op.Value
				}
			}
		}
		t.Done()
		for _, e := range t.events {
			s.told = append(s.told, e.subject+": "+e.what)
			if strings.HasPrefix(e.what, "refused") {
				s.t.Fatalf("%s: %s", e.subject, e.what)
			}
		}
	}
	if groups, err := s.m.step(s.now).Encode(); err != nil || len(groups) > 0 {
		s.t.Fatalf("a pass does not settle: %v %s", err, groups[0][0].Key)
	}
}

func (s *sim) ticks(n int, d time.Duration) {
	for range n {
		s.tick(d)
	}
}

func (s *sim) restart() {
	s.m = newModel(time.Minute)
	for key, value := range s.disk {
		if _, err := s.m.db.Load(bus.Entry{Key: key, Value: value}); err != nil {
			s.t.Fatal(err)
		}
	}
	s.m.derive(s.now)
	s.m.recallMoves(s.now)
}

// act fetches the shares, runs them, and reports.
func (f *fake) act(s *sim, name string) {
	c := s.m.clusters[name]
	if !f.linked {
		if !c.suspect {
			c.suspect, c.since, c.connected = true, s.now, false
		}
		return
	}
	if s.m.unasked(name) {
		c.held = &held{lost: true, lease: f.lease} // as it would answer
		for _, key := range records.SortedKeys(f.shares) {
			c.held.shares = append(c.held.shares, f.shares[key])
		}
	}
	if !s.m.silent(name) {
		f.lease = s.m.net.leases[name]
		f.shares = map[string]wire.Share{}
		for key, sh := range s.m.shares {
			if rest, ok := strings.CutPrefix(key, name+"."); ok {
				f.shares[rest] = *sh
			}
		}
	}
	wanted := map[string]wire.Share{}
	for _, sh := range f.shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				wanted[instanceID(sh.App, sh.Service, o)] = sh
			}
		}
	}
	for id := range f.runs {
		if _, ok := wanted[id]; !ok {
			delete(f.runs, id)
		}
	}
	taken := 0
	for _, r := range f.runs {
		if r.State == wire.Running {
			taken++
		}
	}
	for _, id := range records.SortedKeys(wanted) {
		sh := wanted[id]
		r, ok := f.runs[id]
		if !ok {
			r = wire.Reported{Instance: wire.Instance{V: wire.Version, ID: id, App: sh.App, Service: sh.Service, Cluster: name}}
		}
		switch {
		case f.lost && r.State == wire.Running:
			r.State, r.Ready, r.Retained, r.Reason = wire.Requested, false, true, "its worker is away"
		case !f.lost && r.Retained:
			r.State, r.Ready, r.Retained, r.Reason = wire.Running, true, false, ""
			taken++
		}
		if sh.Spec.Job != nil {
			r.Revision = sh.Revision
			f.runs[id] = f.job(id, &sh, r)
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
			r.Program, r.Ready, f.busy = program, false, f.busy+1
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
			r.Ready, r.Restarted, f.busy = false, n, f.busy+1
		case r.State == wire.Running && !r.Ready && !f.stuck:
			r.Ready = true
		case r.State == wire.Running:
		case !f.paths && slices.ContainsFunc(sh.Spec.Volumes, func(v api.Volume) bool { return v.Host != "" }):
			r.State, r.Ready, r.Reason = wire.Requested, false, "no worker lets the host path be used"
		case f.remote && len(sh.Spec.Latency) > 0:
			r.State, r.Ready, r.Reason = wire.Requested, false, "1 worker: 1 is not within "+sh.Spec.Latency[0].Max.String()+" of "+sh.Spec.Latency[0].To+": 70.0ms away"
		case taken < f.room && !f.lost:
			taken++
			r.Restarted = n
			r.State, r.Ready, r.Address, r.Peer = wire.Running, true, name+":8474", "w-1"
		case r.Retained:
		default:
			r.State, r.Reason = wire.Requested, "full"
		}
		if r.SLAViolation = ""; r.State == wire.Running && len(sh.Spec.Latency) > 0 {
			r.SLAViolation = f.unkept
		}
		if r.Room = nil; r.State == wire.Running && f.makes != "" {
			r.Room = &wire.RoomAsk{Since: s.now, For: f.makes}
		}
		f.runs[id] = r
	}
	f.seq++
	rep := wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: f.seq}}
	c.seen = map[string]*wire.Reported{}
	for id, r := range f.runs {
		c.seen[id] = &r
		b, _ := json.Marshal(r)
		rep.Changes = append(rep.Changes, wire.Change{Key: id, Value: b})
	}
	c.inbox.Accept(rep)
	free := float64(f.room + f.boasts - taken)
	if f.lost {
		free = 0
	}
	sp := func(x float64) wire.Spread { return wire.Spread{Sum: free * x, Mean: free * x, Max: free * x} }
	c.agg = &wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"}, CPU: sp(100), Memory: sp(64 << 20), Disk: sp(1 << 20)}
	if s.sized {
		c.agg.Capacity = amount.Times(api.Resources{CPU: 100, Memory: 64 << 20, Disk: 1 << 20}, f.room)
	}
	if f.at != nil {
		c.agg.Architectures, c.agg.Disc = map[string]int{"amd64": 1}, &wire.Disc{Center: *f.at, RadiusKm: 5, Workers: 1}
	}
	c.agg.Objects = wire.PackMarks(f.has)
	f.grown = min(f.grown+1, 40)
	c.agg.Network = lease.Need(f.lease, nil, f.grown, s.now)
	c.heard, c.everHeard, c.connected, c.suspect, c.current = s.now, true, true, false, true
}

// says reports how far the rollout of a share is.
func (f *fake) says(c *cluster, sh *wire.Share, phase, why string) {
	if c.rollouts == nil {
		c.rollouts = map[string]*wire.RolloutReport{}
	}
	c.rollouts[sh.App+"."+sh.Service] = &wire.RolloutReport{V: wire.Version, Cluster: c.Name, App: sh.App, Service: sh.Service, Revision: sh.Revision, Program: sh.Spec.ProgramID(), Phase: phase, Why: why, Promised: sh.Min}
}

// check holds what must be true after every pass.
func (s *sim) check() {
	s.t.Helper()
	s.checkNetwork()
	given := map[string]string{}
	for key, sh := range s.m.shares {
		name, _, _ := strings.Cut(key, ".")
		n := 0
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				id := instanceID(sh.App, sh.Service, o)
				if other, ok := given[id]; ok {
					s.t.Fatalf("%s is delegated to %s and to %s", id, other, name)
				}
				given[id] = name
				n++
			}
		}
		if n != sh.Max || sh.Min != sh.Max {
			s.t.Fatalf("share %s has %d ordinals for min %d max %d", key, n, sh.Min, sh.Max)
		}
	}
}

// checkNetwork: nothing of the network has two owners, whoever thinks so.
func (s *sim) checkNetwork() {
	s.t.Helper()
	var numbers, subnets []wire.Block
	for name, f := range s.fakes {
		l := f.lease
		if l == nil {
			continue
		}
		if len(lease.Without(l.Numbers, numbers)) != len(l.Numbers) || len(lease.Without(l.Subnets, subnets)) != len(l.Subnets) ||
			lease.Count(lease.Without(l.Numbers, numbers)) != lease.Count(l.Numbers) || lease.Count(lease.Without(l.Subnets, subnets)) != lease.Count(l.Subnets) {
			s.t.Fatalf("%s has what another one has: %+v", name, l)
		}
		numbers, subnets = append(numbers, l.Numbers...), append(subnets, l.Subnets...)
		if lease.Count(subnets) > 64 {
			s.t.Fatalf("%d networks of 64 are given", lease.Count(subnets))
		}
	}
	seen := map[uint32]string{}
	for name, app := range s.m.apps {
		if other := seen[app.Number]; other != "" && app.Number != 0 {
			s.t.Fatalf("%s and %s have number %d", name, other, app.Number)
		}
		seen[app.Number] = name
	}
	for key, sh := range s.m.shares {
		if app := s.m.apps[sh.App]; !s.m.holding(s.now) && app != nil && app.Deleting.IsZero() && (sh.AppNumber == 0 || sh.AppNumber != app.Number) {
			s.t.Fatalf("share %s has number %d, its application %d", key, sh.AppNumber, app.Number)
		}
	}
}

// running counts what runs of an application, on clusters linked or not.
func (s *sim) running(app string) (n int) {
	for _, f := range s.fakes {
		for _, r := range f.runs {
			if r.App == app && r.State == wire.Running {
				n++
			}
		}
	}
	return n
}

func (s *sim) endpoints(app string) (ready, suspect int) {
	if r := s.m.routes[app+".web"]; r != nil {
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
	for _, i := range s.m.begin().instances("") {
		fmt.Fprintf(&b, "%s %s in %q draining %v unreachable %v replaces %q: %s\n", i.ID, i.State, i.Cluster, i.Draining, i.Unreachable, i.Replaces, i.Reason)
	}
	for name, f := range s.fakes {
		fmt.Fprintf(&b, "%s linked %v room %d runs %d\n", name, f.linked, f.room, len(f.runs))
	}
	return b.String()
}

// copied is the disk as a backup has it.
func (s *sim) copied() map[string][]byte { return maps.Clone(s.disk) }

// restored puts a copy in the place of the root; a cluster that it does not know
// joins again.
func (s *sim) restored(disk map[string][]byte) {
	s.t.Helper()
	s.disk = maps.Clone(disk)
	s.store(backup.MarkKey, backup.Mark{V: wire.Version, At: s.now, Made: s.now.Add(-time.Hour)})
	for name := range s.fakes {
		if s.disk[keyCluster+name] == nil {
			s.store(keyCluster+name, clusterRecord{V: wire.Version, Name: name})
		}
	}
	s.restart()
}

// job is what a cluster does about one instance of a job: it waits for its turn, runs for
// a tick, and completes.
func (f *fake) job(id string, sh *wire.Share, r wire.Reported) wire.Reported {
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
	for _, other := range f.runs {
		if other.Service == r.Service && other.App == r.App && other.State == wire.Running && other.ID != id {
			active++
		}
	}
	switch {
	case f.room == 0 && r.State == wire.ClusterScheduled:
		r.State, r.Reason = wire.Requested, "full"
	case r.State == wire.ClusterScheduled && active < job.Parallel(sh):
		r.State, r.Ready = wire.Running, true
	case r.State == wire.Running && !f.idle:
		r.State, r.Ready, r.Reason = wire.Terminated, false, "completed" // as a version before causes says it
		f.did = append(f.did, fmt.Sprintf("%s/%d", id, x))
	}
	return r
}
