package counters

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// goneTable is what was counted of applications that are gone.
var goneTable = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Aside, Drop: "what was counted of applications that are gone is forgotten",
}, table.Rules[wire.Counters]{Essential: true})

// maxTallies bounds the applications of which one cluster's counts are kept.
const maxTallies = 20_000

// Key + wire.GoneCounters: wire.Counters, the changes of applications that are gone.
const Key = "tally."

// Take takes over a change of what a cluster has counted, if it is one; ok says
// whether it is.
func Take(cl *state.Cluster, ch wire.Change) (ok bool, err error) {
	app, found := strings.CutPrefix(ch.Key, wire.ReportedCounters)
	if !found {
		return false, nil
	}
	if ch.Deleted {
		delete(cl.Counters, app)
		return true, nil
	}
	var n wire.Counters
	if err := json.Unmarshal(ch.Value, &n); err != nil {
		return true, err
	}
	if app == "" || len(app) > state.MaxName {
		return true, fmt.Errorf("it is about %q", state.Cut(app, state.MaxName))
	}
	if _, old := cl.Counters[app]; !old && len(cl.Counters) >= maxTallies {
		return true, errors.New("the counts of too many applications are kept of it already")
	}
	if cl.Counters == nil {
		cl.Counters = state.Counters{}
	}
	cl.Counters[app] = n.Clamp()
	return true, nil
}

// Of is all that a cluster has counted; nil: nothing was heard of it yet.
func Of(cl *state.Cluster) *wire.Counters {
	if !cl.EverHeard {
		return nil
	}
	var sum wire.Counters
	for _, n := range cl.Counters {
		sum = sum.Plus(n)
	}
	return &sum
}

// Lose notes that a cluster is away.
func Lose(cl *state.Cluster, now time.Time) {
	if n := Of(cl); n != nil {
		cl.Lost = &state.Lost{At: now, Was: *n}
	}
}

// SinceAway is what a cluster has counted since it was away the last time.
func SinceAway(cl *state.Cluster) *apiv1.CountersSince {
	if cl.Lost == nil {
		return nil
	}
	return &apiv1.CountersSince{At: cl.Lost.At, Counters: Of(cl).Since(cl.Lost.Was)}
}

// OfApplication of an application: its restarts as the clusters tell of them, and its
// changes as they were accepted here.
func OfApplication(m *state.Model, app *record.Application) wire.Counters {
	sum := wire.Counters{Changes: app.Changes}
	for _, cl := range m.Clusters {
		n := cl.Counters[app.Name]
		n.Changes = 0 // they were accepted here
		sum = sum.Plus(n)
	}
	return sum
}

// Total is all that was ever counted.
func Total(m *state.Model) (sum wire.Counters) {
	if n := goneTable.Rows(m.DB)[wire.GoneCounters]; n != nil {
		sum.Changes = n.Changes
	}
	for _, app := range m.Apps {
		sum.Changes += app.Changes
	}
	for _, cl := range m.Clusters {
		for _, n := range cl.Counters {
			n.Changes = 0
			sum = sum.Plus(n)
		}
	}
	return sum
}

// Changes counts the services that are not the same in two descriptors. Either may
// be nil.
func Changes(old, next *api.Application) (n uint64) {
	of := func(a *api.Application) map[string]*api.Service {
		if a == nil {
			return nil
		}
		return a.Services
	}
	before, after := of(old), of(next)
	for name, svc := range after {
		if was := before[name]; was == nil || !records.Same(was, svc) {
			n++
		}
	}
	for name := range before {
		if after[name] == nil {
			n++
		}
	}
	return n
}

// Bury keeps the count of an application that is forgotten.
func Bury(t *state.Tx, app *record.Application) {
	if app.Changes == 0 || records.Among(t.Model.Unread, goneTable.Key(wire.GoneCounters)) {
		return
	}
	var sum wire.Counters
	if n := goneTable.Get(t.Rows, wire.GoneCounters); n != nil {
		sum = *n
	}
	sum.Changes += app.Changes
	goneTable.Put(t.Rows, wire.GoneCounters, &sum)
}
