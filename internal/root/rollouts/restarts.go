package rollouts

import (
	"maps"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Restart puts the marks into the shares that are to be. A mark of a service goes
// to one cluster after the other, each when what the one before runs of it has
// been started again and is ready: a cluster alone cannot know what its siblings
// are doing. What was given stays given.
func Restart(t *state.Tx, want map[string]*wire.Share) {
	bySvc := map[string][]string{} // keys of want by app.service, in order of clusters
	for _, key := range records.SortedKeys(want) {
		s := want[key]
		app := t.Model.Apps[s.App]
		if app == nil || len(app.Restarts) == 0 {
			continue
		}
		for _, sp := range s.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				if r, ok := app.Restarts[s.Service+"."+strconv.Itoa(o)]; ok {
					if s.RestartOf == nil {
						s.RestartOf = map[int]wire.Restart{}
					}
					s.RestartOf[o] = r
				}
			}
		}
		if _, ok := app.Restarts[s.Service]; ok {
			bySvc[s.App+"."+s.Service] = append(bySvc[s.App+"."+s.Service], key)
		}
	}
	for _, keys := range bySvc {
		r := t.Model.Apps[want[keys[0]].App].Restarts[want[keys[0]].Service]
		busy := false
		var wait []string
		for _, key := range keys {
			if want[key].Spec.Job != nil { // another run, which begins everywhere
				want[key].Restart = &r
				continue
			}
			old := t.Model.Shares[key]
			ready, done := progress(t, key, want[key], r.N)
			switch {
			case old == nil, old.Restart != nil && old.Restart.N >= r.N, !ready:
				// New, or going on, or of no use to anybody as it is.
				want[key].Restart = &r
				busy = busy || !done
			default:
				want[key].Restart = old.Restart
				wait = append(wait, key)
			}
		}
		if len(wait) > 0 && !busy {
			want[wait[0]].Restart = &r
		}
	}
}

// progress of a restart in one cluster: whether anything of the share is ready,
// or was and is on its way to be again; and whether all of it has been started
// again and is ready. A cluster that is away is not waited for.
func progress(t *state.Tx, key string, s *wire.Share, n uint64) (ready, done bool) {
	name, _, _ := strings.Cut(key, ".")
	c := t.Model.Clusters[name]
	if c == nil || c.Suspect {
		return true, true
	}
	done = true
	for _, sp := range s.Ordinals {
		for o := sp.From; o < sp.To; o++ {
			rep := c.Seen[state.InstanceID(s.App, s.Service, o)]
			if rep == nil {
				done = done && c.EverHeard
				continue
			}
			completed := rep.State == wire.Terminated
			answers := rep.State == wire.Running && rep.Ready || rep.Asleep
			ready = ready || answers || completed || rep.State == wire.WorkerScheduled
			done = done && (answers || completed) && rep.Restarted >= n
		}
	}
	return ready || !c.EverHeard, done
}

// SameRestarts compares the marks of two shares.
func SameRestarts(a, b *wire.Share) bool {
	same := func(a, b wire.Restart) bool { return a.N == b.N && a.By == b.By && a.Why == b.Why && a.At.Equal(b.At) }
	if (a.Restart == nil) != (b.Restart == nil) || a.Restart != nil && !same(*a.Restart, *b.Restart) {
		return false
	}
	return maps.EqualFunc(a.RestartOf, b.RestartOf, same)
}
