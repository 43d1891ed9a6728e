package state

import (
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
	"golang.org/x/time/rate"
)

// CertifiedUntil is when the last certificate that the worker was given does.
func (r *WorkerRecord) CertifiedUntil() time.Time {
	if r.Expires.IsZero() {
		return r.Joined.Add(pki.LeafTTL) // of before that was noted
	}
	return r.Expires
}

// How much a worker may say of its instances.
const (
	MaxStatuses    = 10_000
	maxStatusBytes = 16 << 20 // of all of them together
)

// settle gives a record of before there were grants one: who was a gateway stays one.
// The next write of the record stores it.
func (r *WorkerRecord) settle() {
	if r.Gateway == nil {
		r.Gateway = &wire.GatewayGrant{Allowed: r.Info.Gateway != "" || r.Info.WantsCertificates()}
	}
}

// IsGateway says whether a worker is given the certificates of hosts: it has use of
// them, and may have them.
func (w *Worker) IsGateway() bool {
	return w.Info.WantsCertificates() && w.Gateway.May() && w.Revoked.IsZero()
}

// A worker may say so often, at once and each second, that it uses something else:
// each time is a write.
const (
	usesPerSecond = 2
	usesAtOnce    = 20
)

func newUsesLimit() *rate.Limiter { return rate.NewLimiter(usesPerSecond, usesAtOnce) }

// WorkerRecord is what is kept about a worker over restarts.
type WorkerRecord struct {
	V      int             `json:"v"`
	Info   wire.WorkerInfo `json:"info"`
	Joined time.Time       `json:"joined"`
	// PublicKey of its bus identity: a second worker cannot take its name.
	PublicKey string `json:"public_key"`
	// KeyHash of its TLS key, for the same reason.
	KeyHash string `json:"key_hash"`
	// Cordon is set while the worker takes nothing new.
	Cordon *wire.Cordon `json:"cordon,omitempty"`
	// Expires is when the last certificate that it was given does.
	Expires time.Time `json:"expires,omitzero"`
	// Gateway says whether it may be a gateway with TLS; nil in records of before there
	// were grants, see settle.
	Gateway *wire.GatewayGrant `json:"gateway,omitempty"`
	// Revoked since: its key does not count any more, and another node may take its
	// place.
	Revoked time.Time `json:"revoked,omitzero"`
}

// Worker is a registered worker: what is stored, and what is known of it now.
type Worker struct {
	WorkerRecord

	// Of this process, from monotonic clocks.
	Heard             time.Time     // last report; the start of this process before the first
	EverHeard         bool          // a report came since this process started
	Matched           bool          // it has had what this process wants of it
	HeartbeatInterval time.Duration // how long until the next report, as it said
	Connected         bool
	Closed            time.Time // when its connection was closed last
	Suspect           bool
	Since             time.Time // of suspect
	Skew              exchange.Skew
	Leaving           bool      // its agent announced a restart
	Renewed           time.Time // when it was certified last by this process
	Told              time.Time // when what it says about itself was stored last
	Has               wire.Rev  // of its desired state, as its last report said
	Current           bool      // that was the current one
	Over              int       // reported changes that were too many, as far as that was said
	Want              wire.Rev  // of its desired state, as the store was at revision WantAt, if LookedUp
	WantAt            uint64
	LookedUp          bool
	Inbox             exchange.Inbox
	Says              *rate.Limiter // how often what it uses may change
	Status            map[wire.InstanceID]wire.InstanceStatus
	// Coord is where it said last that it is; nil where that is not known.
	Coord *wire.Coordinate
	// Place is the Coord that routes tell (coord.Point.Short), as of Placed; nil: none yet.
	Place  []int32
	Placed time.Time
	// Labels are its own over those of the site; nil where the site has none.
	Labels map[string]string
}

// Learn takes over what is stored about a worker.
func (w *Worker) Learn(rec WorkerRecord, site map[string]string) {
	w.WorkerRecord, w.Labels = rec, nil
	if len(site) > 0 {
		w.Labels = maps.Clone(site)
		maps.Copy(w.Labels, rec.Info.Labels)
	}
}

// NewWorker returns a registered worker that has not been heard by this process.
func NewWorker(rec WorkerRecord, now time.Time) *Worker {
	return &Worker{
		WorkerRecord: rec, Heard: now, HeartbeatInterval: rpc.MaxHeartbeat, Status: map[string]wire.InstanceStatus{},
		Inbox: exchange.Inbox{MaxKeys: MaxStatuses, MaxBytes: maxStatusBytes}, Says: newUsesLimit(),
	}
}

// Draining says whether everything is to move off a worker.
func (w *Worker) Draining() bool { return w != nil && w.Cordon != nil && w.Cordon.Drain }

// MinHeartbeat is the shortest time between two reports of a worker, rpc.MaxHeartbeat the longest.
const MinHeartbeat = time.Second

// Impaired is why the worker itself says that it cannot be counted on. What was
// stored by a former process says nothing about now.
func (w *Worker) Impaired() string {
	if !w.EverHeard {
		return ""
	}
	return w.Info.Impaired
}

// Peer is the worker as package suspicion judges it.
func (w *Worker) Peer() suspicion.Peer {
	return suspicion.Peer{
		Heard: w.Heard, Interval: w.HeartbeatInterval, Since: w.Since,
		// One that has not been heard since this process started may still be on
		// its way back.
		Connected: w.Connected || !w.EverHeard, Impaired: w.Impaired(),
	}
}
