package state

import (
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/wire"
)

// ClusterRecord is what is kept about a cluster over restarts.
type ClusterRecord struct {
	V       int       `json:"v"`
	Name    string    `json:"name"`
	Areas   []string  `json:"areas,omitempty"`
	Joined  time.Time `json:"joined"`
	Version string    `json:"version,omitempty"`
	// KeyHash of its authority's key: a second cluster cannot take its name.
	KeyHash string `json:"key_hash"`
	// Cordon is set while the cluster is given nothing new.
	Cordon *wire.Cordon `json:"cordon,omitempty"`
	// Expires is when the last certificate that it was given does.
	Expires time.Time `json:"expires,omitzero"`
	// Revoked since: its key does not count any more, and it has to join again.
	Revoked time.Time `json:"revoked,omitzero"`
}

// Cluster is a registered cluster: what is stored, and what is known of it now.
type Cluster struct {
	ClusterRecord

	// Of this process, from monotonic clocks.
	Heard     time.Time // last report; the start of this process before the first
	EverHeard bool
	Interval  time.Duration
	Connected bool // by the link's own word
	Skew      exchange.Skew
	Suspect   bool
	Since     time.Time // of suspect
	Aggregate *wire.Aggregate
	Has       wire.Rev // of its desired state, as its last report said
	Current   bool     // that was the current one
	Inbox     exchange.Inbox
	Held      *Holdings // what it says that it holds; nil: not asked, or not needed
	Unheld    string    // why it could not be asked
	Over      int       // reported changes that were too many, as far as that was said
	Seen      map[wire.InstanceID]*wire.Reported
	Sites
	Counters    Counters
	Lost        *Lost                      // nil: it was not away since the root started
	RevokedKeys map[string]wire.Revocation // what it says about keys of its workers, by hash
	Renewed     time.Time                  // when it was certified last by this process
	Matched     bool                       // it has had what this process wants of it
	// Refused are the services that it is not asked for again for a while, by app.service.
	Refused map[string]Refusal
	// Short is what it lacks of services (app.service); nil: it has not been heard.
	Short map[string]*Shortage
	// Rollouts are how far it says that it is with services (app.service).
	Rollouts map[string]*wire.RolloutReport
	// Jobs are what it says of the runs of jobs (app.service).
	Jobs map[string]*wire.JobReport
	// Losses are what the silence of its workers affects; Losing are those of the report that
	// is being taken over, by worker ("" where the cluster does not name it).
	Losses []*suspicion.Loss
	Losing map[string]*suspicion.Loss
}

// NewCluster returns a cluster that has not been heard by this process.
func NewCluster(rec ClusterRecord, now time.Time) *Cluster {
	return &Cluster{ClusterRecord: rec, Heard: now, Interval: MaxReportInterval, Seen: map[string]*wire.Reported{},
		RevokedKeys: map[string]wire.Revocation{}, Refused: map[string]Refusal{}}
}

// putCluster makes the record of a cluster, nil for none, part of what is known of it.
func (m *Model) putCluster(name string, rec *ClusterRecord) {
	cl := m.Clusters[name]
	switch {
	case rec == nil:
		delete(m.Clusters, name)
	case cl == nil:
		m.Clusters[name] = NewCluster(*rec, time.Now())
	default:
		cl.follow(rec)
	}
}

// follow makes rec the record of c. With another key the cluster has an empty directory: what
// the one before it had reported and was told says nothing about it.
func (c *Cluster) follow(rec *ClusterRecord) {
	if c.KeyHash != rec.KeyHash {
		c.Inbox.Restart()
		c.Has, c.Current, c.Matched, c.Held = wire.Rev{}, false, false, nil
	}
	c.ClusterRecord = *rec
	c.Connected = c.Connected && rec.Revoked.IsZero()
}

// View is a cluster as the ranking sees it, without what it was given.
func (c *Cluster) View() place.ClusterView {
	v := place.ClusterView{
		ID: c.Name, Areas: c.Areas, Connected: !c.Suspect && c.Aggregate != nil, Cordoned: c.Cordon != nil,
	}
	if c.Aggregate != nil {
		v.Aggregate, v.Runtimes = *c.Aggregate, c.Aggregate.Runtimes
		if len(c.Aggregate.Areas) > 0 {
			v.Areas = c.Aggregate.Areas
		}
	}
	return v
}

// Peer is the cluster as suspicion judges it.
func (c *Cluster) Peer() suspicion.Peer {
	return suspicion.Peer{Heard: c.Heard, Interval: c.Interval, Since: c.Since, Connected: c.Connected || !c.EverHeard}
}

// Draining says whether everything is to move out of a cluster.
func (c *Cluster) Draining() bool { return c != nil && c.Cordon != nil && c.Cordon.Drain }

// ExpiresAt is when the last certificate that the cluster was given does.
func (r *ClusterRecord) ExpiresAt() time.Time {
	if r.Expires.IsZero() {
		return r.Joined.Add(pki.ClusterTTL) // of before that was noted
	}
	return r.Expires
}

// Sites is what a cluster reports about changes that were made there without the
// root. It has no effect here but to be shown: what counts at the site is the
// site's until an apply says something new.
type Sites struct {
	Locals    map[string]*wire.LocalChange // by app.service
	Conflicts map[string]*wire.Conflict    // by id
}

// Shortage is what a cluster lacks of a service, in this process.
type Shortage struct {
	Said wire.ServiceShort // as it said last
	Held scale.Hold
	Full string // why, while held is above 0
}

// Refusal is what a cluster was asked for and gave back.
type Refusal struct {
	Spec *api.Service // what it could not run; another program is another question
	At   time.Time
	Wait time.Duration
	Why  string
	// Agg is its aggregate as it was looked at last, nil where that says nothing; Gained,
	// that it has become better since At.
	Agg    *wire.Aggregate
	Gained bool
	// Violated: it had an instance, and did not keep its agreement.
	Violated bool
}

// Counters are what a cluster has counted, by application or wire.GoneCounters. Like all
// that clusters report they are held in memory only.
type Counters map[string]wire.Counters

// Lost is when a cluster was not heard of any more, and what it had counted then.
type Lost struct {
	At  time.Time
	Was wire.Counters
}

// Holdings is what a cluster said that it holds.
type Holdings struct {
	Shares []wire.Share
	Lease  *wire.ClusterLease
	// Lost: the cluster has seen what this root's store has not. Where it has not,
	// the store knows better.
	Lost bool
}
