package cluster

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of a cluster's store.
const (
	keyLocal    = "local."    // + app.service: local
	keyConflict = "conflict." // + number of the local change: conflict
	keyAgain    = "again."    // + app.service: again
	keyLocals   = "locals"    // how many local changes there have been

	// + app.service: wire.LocalChange; + number: wire.Conflict, for the root. No id of
	// an instance has a slash.
	keyUpLocal    = state.KeyUp + wire.ReportedLocal
	keyUpConflict = state.KeyUp + wire.ReportedConflict

	keyPublish = "publish." // + namespace: wire.Publish, from the root

)

// model is all that a cluster knows.
type model struct {
	*state.Model

	// byDefault is the scheduler of services that name none, "" is rom.
	byDefault string
	locals    map[string]*local
	// conflicts by the number of the local change.
	conflicts map[string]*conflict
	again     map[string]*again
	// rolls are rollouts, by application and service.
	rolls    map[string]*rolling
	paces    map[wire.InstanceID]pace // of services that are rolled out, of this process
	outcomes map[string]*outcomes     // the same, by application and service
	// gates are the namespaces in which hooks of this cluster are asked before waves of
	// rollouts, see hooks.Keeper.Gates, and waveWords what hooks have said, by application and
	// service. Both are of this process.
	gates     map[string]string
	waveWords map[string]*waveWord
	uses      map[string]*uses // who needs the endpoints of which routes
	// upLocals and upConflicts are what the root is told of locals and conflicts.
	upLocals    map[string]*wire.LocalChange
	upConflicts map[string]*wire.Conflict
	upRolls     map[string]*wire.RolloutReport
	upJobs      map[string]*wire.JobReport
	schedules   *schedules
	scaled      map[string]*scaled  // by application and service, as shares
	profiles    map[string]*profile // by the same
	jobs        map[string]*jobRecord
	snapshots   map[string]*wire.Snapshot // by namespace/object
	// leftVolumes by worker.instance.
	leftVolumes map[string]*wire.LeftVolumes
	look        jobLook // of this process
	// wants is what the last epoch decided, of services that somebody asked for lately.
	// It is of this process.
	wants map[string]*want
	near  *near // what is known of distances
	// flows are where the requests of services enter that are to be near them, by
	// application and service.
	flows map[string]*flows
	// entering is what of it the root is told.
	entering []wire.Entering
	// plugins that are registered, and whether they decide jointly; counsels is where
	// instances stand with them, breakers whether they rest. All are of this process.
	plugins  map[string]bool
	counsels map[wire.InstanceID]*counsel
	breakers map[string]plugin.Breaker
	members  map[string]*member // by plugin and hash of the key
	// upgraded is how far the workers are with the upgrade, by name.
	upgraded map[string]*upgradedRecord
	counts   *upgradeCounts // of this process; nil: none yet
	// publish is what namespaces may publish, by the root's word; of others it is the default.
	publish wire.PublishRules
	// otherPorts are those that other clusters hold on this machine, see PortBook. The map is
	// replaced, never changed.
	otherPorts map[int]string
	vault      secrets.Vault // opens what is sealed for this cluster
	// acmes are what gateways share of ACME servers, by acmeID, without the values.
	acmes map[string]*acmeRecord
	net   netlease.Network // what it is in the service network
}

func newModel(name string, details bool, now time.Time) *model {
	m := &model{
		Model: state.NewModel(name, details, now), waveWords: map[string]*waveWord{}, paces: map[wire.InstanceID]pace{}, outcomes: map[string]*outcomes{},
		schedules: &schedules{}, uses: map[string]*uses{}, wants: map[string]*want{}, near: newNear(), flows: map[string]*flows{},
		plugins: map[string]bool{}, counsels: map[wire.InstanceID]*counsel{}, breakers: map[string]plugin.Breaker{},
	}
	m.attach()
	return m
}

// attach makes the records of the parts those of the database.
func (m *model) attach() {
	db := m.DB
	m.publish = publishTable.Rows(db)
	m.locals, m.conflicts, m.again = localTable.Rows(db), conflictTable.Rows(db), againTable.Rows(db)
	m.upLocals, m.upConflicts = upLocalTable.Rows(db), upConflictTable.Rows(db)
	m.upRolls, m.upJobs = upRolloutTable.Rows(db), upJobTable.Rows(db)
	m.rolls, m.jobs, m.scaled, m.profiles = rollTable.Rows(db), jobTable.Rows(db), scaledTable.Rows(db), profileTable.Rows(db)
	m.snapshots, m.leftVolumes = snapshotTable.Rows(db), leftVolumeTable.Rows(db)
	m.members, m.upgraded, m.acmes = memberTable.Rows(db), upgradedTable.Rows(db), acmeTable.Rows(db)
}

// changes is how many local changes there have been.
func (m *model) changes() uint64 {
	if n := localsTable.One(m.DB); n != nil {
		return *n
	}
	return 0
}

// derive makes what follows from what is stored, once that was loaded.
func (m *model) derive(now time.Time) {
	m.Loaded(now)
	for key := range usesTable.Rows(m.DB) {
		m.loadUses(key)
	}
	m.effect()
}

// tx collects what one pass of the loop changes.
type tx struct {
	*state.Tx

	m   *model
	net *netlease.Pass
	// nil: deleted
	locals      map[string]*local
	conflicts   map[string]*conflict
	again       map[string]*again
	upLocals    map[string]*wire.LocalChange
	upConflicts map[string]*wire.Conflict
	rolls       map[string]*rolling
	upRolls     map[string]*wire.RolloutReport
	upJobs      map[string]*wire.JobReport
	scaled      map[string]*scaled
	profiles    map[string]*profile
	jobs        map[string]*jobRecord
	snapshots   map[string]*wire.Snapshot    // nil: deleted
	leftVolumes map[string]*wire.LeftVolumes // nil: deleted
	// doneBack is what the root said of jobs just now, since this cluster was restored.
	doneBack map[string]*wire.JobDone
	// turns are the instances of jobs that may start.
	turns map[wire.InstanceID]bool
	// use, fleet and apart are made when they are first asked for.
	use   map[string]*usage
	fleet *place.Fleet
	told  map[string]bool // services of which fleet knows the rates
	// standings of namespaces, see standing; turn is that of the instance that is being
	// placed in a round.
	standings map[string]wire.Standing
	turn      *turn.Turn
	room      *room // nil as long as nobody asks for any
	// victims were displaced, and wait for another worker since.
	victims []wire.InstanceID
	apart   map[string][]string
	// portsOf is made when it is first asked for as well; see portIndex.
	portsOf *portIndex
	// before are the shares of the revision before, see shareFor.
	before map[string]*wire.Share
	// rates by application and service, made when they are first asked for.
	rates map[string]*rates
	// stays are the instances that cannot leave a worker that is drained, with the
	// reason; waits those whose turn has not come.
	stays map[wire.InstanceID]string
	waits map[wire.InstanceID]bool
	// tried are those that make room, and whose move elsewhere came to nothing.
	tried map[wire.InstanceID]bool
	// asks are the questions to plugins, waiting the instances that
	// have no decision yet because of one, counsels what changes of where they stand
	// (nil: deleted). spared counts by plugin the instances that rom has placed while it
	// rested.
	asks     map[string]*ask
	spared   map[string]uint64
	waiting  map[wire.InstanceID]bool
	counsels map[wire.InstanceID]*counsel
	// broken are the instances that are to move for their agreement, with the reason.
	broken map[wire.InstanceID]string
	// unkept are those of which nobody here is expected to keep the agreement, with what
	// the root is told.
	unkept map[wire.InstanceID]string
	// waves are those of rollouts about which hooks are to be asked, by application and service.
	waves map[string]*waveAsk
}

func (m *model) begin() *tx {
	base := m.Begin()
	rows := base.Rows
	return &tx{
		Tx: base, m: m,
		net:    m.net.Pass(base),
		locals: localTable.Changes(rows), conflicts: conflictTable.Changes(rows), again: againTable.Changes(rows),
		upLocals: upLocalTable.Changes(rows), upConflicts: upConflictTable.Changes(rows), upRolls: upRolloutTable.Changes(rows), upJobs: upJobTable.Changes(rows),
		rolls: rollTable.Changes(rows), jobs: jobTable.Changes(rows), scaled: scaledTable.Changes(rows),
		profiles: profileTable.Changes(rows), snapshots: snapshotTable.Changes(rows), leftVolumes: leftVolumeTable.Changes(rows),
		waves: map[string]*waveAsk{},
		asks:  map[string]*ask{}, spared: map[string]uint64{}, waiting: map[wire.InstanceID]bool{}, counsels: map[wire.InstanceID]*counsel{},
	}
}

// reads is a tx for those who change nothing: it has no room for changes, and costs little.
func (m *model) reads() *tx {
	base := m.Read()
	return &tx{Tx: base, m: m, net: m.net.Pass(base)}
}

// Done implements keeper.Tx.
func (t *tx) Done() {
	t.Tx.Done()
	if len(t.scaled)+len(t.rolls)+len(t.locals)+len(t.again) > 0 {
		t.m.effect(slices.Concat(records.SortedKeys(t.scaled), records.SortedKeys(t.rolls), records.SortedKeys(t.locals), records.SortedKeys(t.again))...)
	}
}

// used is what the instances placed on each worker reserve, and how many of
// them belong to each service.
type usage struct {
	used api.Resources
	same map[string]int
	n    int // of all instances
	// held is what of its devices is taken, in thousandths, by their ids; nil: nothing.
	held map[string]api.Units
}

// add counts an instance.
func (u *usage) add(i *wire.Instance) {
	if u.same == nil {
		u.same = map[string]int{}
	}
	u.same[i.App+"."+i.Service]++
	u.n++
}

func (t *tx) usage() map[string]*usage {
	out, all := make(map[string]*usage, len(t.m.Workers)), make([]usage, len(t.m.Workers))
	for name := range t.m.Workers {
		out[name], all = &all[0], all[1:]
	}
	add := func(worker string, i *wire.Instance) {
		u := out[worker]
		if u == nil {
			return
		}
		// What it is to be may ask for more than what it is, or for less; until it is
		// updated it takes the larger of both.
		var r api.Resources
		if s := t.m.Shares[i.App+"."+i.Service]; s != nil {
			r = s.Spec.Resources
		}
		if o := t.Ordered(worker + "." + i.ID); state.Asleep(i) && i.Worker == worker {
			r = api.Resources{} // until somebody asks for it, and its worker finds room
		} else if o != nil && o.Spec != nil {
			r = amount.Larger(r, o.Spec.Resources)
		}
		u.used = amount.Add(u.used, r)
		u.add(i)
	}
	t.held(out)
	for _, i := range t.Instances() {
		if i.Worker != "" && i.State != wire.Terminated && i.State != wire.Failed {
			add(i.Worker, i)
		}
		if underWay(i) {
			add(i.Moving.Worker, i)
		}
		if i.Leaving != nil {
			add(i.Leaving.Worker, i)
		}
		// What may come back with a lost worker still takes room there.
		if i.Shadow != nil && i.Shadow.Worker != i.Worker {
			add(i.Shadow.Worker, i)
		}
	}
	return out
}
