package overlay

import (
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// Services that go by distances are looked at again after this long: soon while the
// distances are news, and then every lookMost, as routing by weights asks for.
const (
	lookLeast = 250 * time.Millisecond
	lookMost  = 10 * time.Second
)

// looking is what the rules know of distances, and when they are looked at again.
type looking struct {
	version uint64              // of the distances that the rules go by
	want    map[string][]Worker // by service: whose distances are needed
	pause   time.Duration
	timer   *time.Timer // nil: never needed so far
}

// distanceLocked adds what is known of the distance to an endpoint elsewhere.
func (n *Network) distanceLocked(v *route.View, by map[string]known) {
	for i := range v.Endpoints {
		e := v.Endpoints[i]
		if e.Local {
			continue
		}
		of := by[e.ID].of
		e.RTT, e.Source, _ = n.opts.Distances.Distance(of.Cluster, of.Worker)
		v.Set(i, e)
	}
}

// wantDistancesLocked notes that a service goes by the distances to its endpoints.
func (n *Network) wantDistancesLocked(service string, r *wire.Route) {
	seen := map[Worker]bool{}
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		w := Worker{Cluster: e.Cluster, Name: e.Worker, Address: e.Address}
		if n.oursLocked(e) || seen[w] {
			continue
		}
		if e.Address == "" { // behind a NAT, for example: by its path alone
			if n.paths == nil {
				continue
			}
			if _, ok := n.paths.peers.Inner(e.Cluster, e.Worker); !ok {
				continue
			}
		}
		seen[w] = true
		n.looks.want[service] = append(n.looks.want[service], w)
	}
}

// lookLocked has the distances measured that the rules need, and sees to it that
// they are looked at again, soon if there was news. Where none are needed there is no
// timer.
func (n *Network) lookLocked(news bool) {
	l := &n.looks
	if len(l.want) == 0 {
		if l.timer != nil {
			l.timer.Stop()
		}
		return
	}
	if news {
		l.pause = 0
	}
	for service, workers := range l.want {
		n.opts.Distances.Want(service, workers)
	}
	l.pause = min(max(2*l.pause, lookLeast), lookMost)
	if l.timer == nil {
		l.timer = time.AfterFunc(l.pause, n.look)
		return
	}
	l.timer.Reset(l.pause)
}

// look writes the rules anew if distances have changed.
func (n *Network) look() {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.spawn == nil: // closed
	case n.opts.Distances.Version() != n.looks.version:
		n.Changed()
	default:
		n.lookLocked(false)
	}
}
