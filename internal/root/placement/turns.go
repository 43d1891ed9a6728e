package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Where not all that waits has room in some cluster, the order in which services are asked
// about says who gets it. It is as in a cluster (turn.Claim): by what their priority
// counts for against other namespaces; where namespaces are equal in that, whose turn it
// is by their weighted dominant shares (turn.Round), of all that the clusters have
// together; within a namespace the higher priority. What others must be near comes before
// them, and counts as much as they do.

// parts is in how many turns a service is placed at most where namespaces contend: with
// more of them the division is finer, and the decision takes longer.
const parts = 16

// Place finds a cluster for every instance that has none.
func Place(t *state.Tx, now time.Time) {
	q := queue{waiting: map[string][]*wire.Instance{}}
	for _, i := range t.Instances("") {
		if i.State == wire.Requested && !i.Draining && !StillHeld(t, i, now) {
			key := i.App + "." + i.Service
			q.waiting[key] = append(q.waiting[key], i)
		}
	}
	if len(q.waiting) == 0 {
		return
	}
	q.claims = claims(t, q.waiting)
	q.given = Allocated(t)
	q.given.eager = q.eager()
	var ranks []int
	for _, c := range q.claims {
		if !slices.Contains(ranks, c.Rank) {
			ranks = append(ranks, c.Rank)
		}
	}
	slices.SortFunc(ranks, func(a, b int) int { return cmp.Compare(b, a) })
	for _, rank := range ranks {
		placeRank(t, &q, inTurn(t, &q, rank), now)
	}
}

// queue is what waits for a cluster.
type queue struct {
	waiting map[string][]*wire.Instance // by app.service
	claims  map[string]turn.Claim
	given   Allocations
}

// claims of services that wait. Who must be near a service needs it first, so it has the
// claim of that one too.
func claims(t *state.Tx, waiting map[string][]*wire.Instance) map[string]turn.Claim {
	out := map[string]turn.Claim{}
	for key, list := range waiting {
		app := t.Model.Apps[list[0].App]
		group, priority := wire.NamespaceOf(app.Spec), app.Spec.Services[list[0].Service].Priority
		out[key] = turn.Claim{Group: group,
			Rank: turn.RankOf(priority, namespaces.StandingOf(t.Model, group).MaxPriority), Priority: priority}
	}
	var raise func(key string)
	raise = func(key string) {
		for _, to := range nearTo(t, key, waiting) {
			if c := out[to]; c.Priority < out[key].Priority { // of one application, so of one namespace
				out[to] = out[key]
				raise(to)
			}
		}
	}
	for _, key := range records.SortedKeys(waiting) {
		raise(key)
	}
	return out
}

// nearTo are the services that wait too, and that a service must be near.
func nearTo(t *state.Tx, key string, waiting map[string][]*wire.Instance) (out []string) {
	i := waiting[key][0]
	for _, l := range t.Model.Apps[i.App].Spec.Services[i.Service].Latency {
		if to := i.App + "." + l.Service(); l.Service() != "" && len(waiting[to]) > 0 {
			out = append(out, to)
		}
	}
	return out
}

// eager are those that come before another by their claims.
func (q *queue) eager() map[string]bool {
	least, lowest := map[string]int{}, math.MaxInt // the lowest priority of each namespace, the lowest rank of all
	for _, c := range q.claims {
		if p, ok := least[c.Group]; !ok || c.Priority < p {
			least[c.Group] = c.Priority
		}
		lowest = min(lowest, c.Rank)
	}
	out := map[string]bool{}
	for key, c := range q.claims {
		if c.Rank > lowest || c.Priority > least[c.Group] {
			out[key] = true
		}
	}
	return out
}

// inTurn are the services of a rank, those of higher priority first and else by name, but
// what others must be near before these. Where services must be near each other in a
// circle, the first of them comes last.
func inTurn(t *state.Tx, q *queue, rank int) []string {
	var keys []string
	for _, key := range records.SortedKeys(q.waiting) {
		if q.claims[key].Rank == rank {
			keys = append(keys, key)
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(q.claims[b].Priority,
			q.claims[a].Priority)
	})
	return turn.AfterNeeds(keys, func(key string) []string { return nearTo(t, key, q.waiting) })
}

// placeRank places the services of one rank: all of each at once, in their order. If that
// leaves something of them without a place, and they are of several namespaces, they
// contend, and it is done again in turns.
func placeRank(t *state.Tx, q *queue, keys []string, now time.Time) {
	groups := map[string]bool{}
	for _, key := range keys {
		groups[q.claims[key].Group] = true
	}
	g, events := q.given.copy(keys), len(t.Events)
	for _, key := range keys {
		d := decide(t, key, q.waiting[key], g, nil, now)
		g.took(key, specOf(t, q.waiting[key][0]), &d)
		settled(t, key, q.waiting[key], q.waiting[key], &d, now)
		if d.Unplaced == 0 || len(groups) == 1 {
			continue
		}
		for _, key := range keys { // as it was
			for _, i := range q.waiting[key] {
				t.Put(*i)
				delete(t.Whys, i.ID)
			}
		}
		t.Events = t.Events[:events]
		contend(t, q, keys, now)
		return
	}
	q.given = g
}

func specOf(t *state.Tx, i *wire.Instance) *api.Service {
	return t.Model.Apps[i.App].Spec.Services[i.Service]
}

// decide asks where the instances of a service, in a list of its own, may go.
func decide(t *state.Tx, key string, list []*wire.Instance, g Allocations, turn *turn.Turn,
	now time.Time) place.Decision {
	begin, spec := time.Now(), specOf(t, list[0])
	count := len(list)
	if spec.Job != nil { // what waits for its turn needs no room
		count = min(count, spec.Job.Parallelism)
	}
	req := Request(t, list[0].App, list[0].Service, spec, count)
	req.Turn = turn
	d := place.RankClusters(Views(t, key, spec, g, now), req)
	switch {
	case spec.Cron != nil:
		together(t, &d, list)
	case spec.Job != nil:
		divideJob(&d, len(list))
	}
	d.TookNs = time.Since(begin).Nanoseconds()
	return d
}

// contend divides what there is between the namespaces that have something waiting, a part
// of a service at a time.
func contend(t *state.Tx, q *queue, keys []string, now time.Time) {
	var total api.Resources
	for _, c := range t.Model.Clusters {
		if c.Aggregate != nil && !c.Suspect {
			total = amount.Add(total, c.Aggregate.Capacity)
		}
	}
	at, list, others := map[string]int{}, make([]turn.Contender, len(keys)), map[string]api.Resources{}
	left, part, tried := map[string][]*wire.Instance{}, map[string]int{}, map[string]bool{}
	for n, key := range keys {
		c, waits := q.claims[key], q.waiting[key]
		list[n] = turn.Contender{
			Service: key, Group: c.Group, Weight: namespaces.StandingOf(t.Model, c.Group).Weight, Priority: c.Priority,
			Used: q.given.used[key], Demand: specOf(t, waits[0]).Resources, Waiting: len(waits),
		}
		at[key], left[key], part[key] = n, waits, (len(waits)+parts-1)/parts
	}
	for key, used := range q.given.used {
		if _, ok := at[key]; !ok {
			group := groupOf(t, key)
			others[group] = amount.Add(others[group], used)
		}
	}
	round := turn.NewRound(total, others, list)
	for n := round.Next(); n >= 0; n = round.Next() {
		turn := round.Turn()
		for key, on := keys[n], map[string]bool{}; ; { // what it must be near goes first
			next := slices.IndexFunc(nearTo(t, key, q.waiting), func(to string) bool {
				_, here := at[to]
				return here && !tried[to] && !on[to]
			})
			if n = at[key]; next < 0 {
				break
			}
			on[key] = true
			key = nearTo(t, key, q.waiting)[next]
		}
		key := keys[n]
		tried[key] = true
		few := left[key][:min(part[key], len(left[key]))]
		d := decide(t, key, few, q.given, &turn, now)
		q.given.took(key, specOf(t, few[0]), &d)
		got := len(few) - d.Unplaced
		settled(t, key, few, left[key], &d, now)
		left[key] = left[key][got:]
		round.Took(n, got, d.Unplaced > 0)
	}
}

// groupOf is the namespace of a service (app.service), "" if it is gone.
func groupOf(t *state.Tx, key string) string {
	app, _, _ := strings.Cut(key, ".")
	if a := t.Model.Apps[app]; a != nil {
		return wire.NamespaceOf(a.Spec)
	}
	return ""
}

// settled carries out a decision about the first instances of a service that waits, asked.
// Where some of them have no place, those of all that wait have none.
func settled(t *state.Tx, key string, asked, all []*wire.Instance, d *place.Decision, now time.Time) {
	n := 0
	for _, sh := range d.Shares {
		for range sh.Count {
			i := t.Advance(*asked[n], wire.ClusterScheduled, now, "delegated to cluster "+sh.Cluster)
			i.Cluster, i.Avoid = sh.Cluster, nil
			t.Put(i)
			t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: *d}
			n++
		}
	}
	if d.Unplaced == 0 {
		return
	}
	rest := all[n:]
	for _, i := range rest {
		if i.Reason != d.Reason {
			next := *i
			next.Reason = d.Reason
			t.Put(next)
			t.Whys[i.ID] = &place.Record{V: wire.Version, At: now, Decision: *d}
			if !t.Model.Right(i) {
				t.Event(event.InstanceNoRoom, i.ID, "waits: %s", d.Reason)
			} else if i == rest[len(rest)-1] {
				t.Event(event.ServiceNoRoom, key, "no cluster has room for %d of the %d that may run: %s", len(rest),
					specOf(t, i).Replicas.Max, d.Reason)
			}
		}
	}
}
