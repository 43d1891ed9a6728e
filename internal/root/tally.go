package root

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// maxTallies bounds the applications of which one cluster's counts are kept.
const maxTallies = 20_000

// keyTally + wire.TallyGone: wire.Tally, the changes of applications that are gone.
const keyTally = "tally."

// tallies are what a cluster has counted, by application or wire.TallyGone. Like all
// that clusters report they are held in memory only.
type tallies map[string]wire.Tally

// takeTally takes over a change of what a cluster has counted, if it is one; ok says
// whether it is.
func (cl *cluster) takeTally(ch wire.Change) (ok bool, err error) {
	app, found := strings.CutPrefix(ch.Key, wire.ReportedTally)
	if !found {
		return false, nil
	}
	if ch.Deleted {
		delete(cl.tallies, app)
		return true, nil
	}
	var n wire.Tally
	if err := json.Unmarshal(ch.Value, &n); err != nil {
		return true, err
	}
	if app == "" || len(app) > maxName {
		return true, fmt.Errorf("it is about %q", cut(app, maxName))
	}
	if _, old := cl.tallies[app]; !old && len(cl.tallies) >= maxTallies {
		return true, errors.New("the counts of too many applications are kept of it already")
	}
	if cl.tallies == nil {
		cl.tallies = tallies{}
	}
	cl.tallies[app] = n.Clamp()
	return true, nil
}

// counted is all that a cluster has counted; nil: nothing was heard of it yet.
func (cl *cluster) counted() *wire.Tally {
	if !cl.everHeard {
		return nil
	}
	var sum wire.Tally
	for _, n := range cl.tallies {
		sum = sum.Plus(n)
	}
	return &sum
}

// lost is when a cluster was not heard of any more, and what it had counted then.
type lost struct {
	at  time.Time
	was wire.Tally
}

// lose notes that a cluster is away.
func (cl *cluster) lose(now time.Time) {
	if n := cl.counted(); n != nil {
		cl.lost = &lost{now, *n}
	}
}

// sinceAway is what a cluster has counted since it was away the last time.
func (cl *cluster) sinceAway() *wire.TallySince {
	if cl.lost == nil {
		return nil
	}
	return &wire.TallySince{At: cl.lost.at, Tally: cl.counted().Since(cl.lost.was)}
}

// tally of an application: its restarts as the clusters tell of them, and its
// changes as they were accepted here.
func (m *model) tally(app *wire.Application) wire.Tally {
	sum := wire.Tally{Changes: app.Changes}
	for _, cl := range m.clusters {
		n := cl.tallies[app.Name]
		n.Changes = 0 // they were accepted here
		sum = sum.Plus(n)
	}
	return sum
}

// counted is all that was ever counted.
func (m *model) counted() (sum wire.Tally) {
	if n := tallyTable.Rows(m.db)[wire.TallyGone]; n != nil {
		sum.Changes = n.Changes
	}
	for _, app := range m.apps {
		sum.Changes += app.Changes
	}
	for _, cl := range m.clusters {
		for _, n := range cl.tallies {
			n.Changes = 0
			sum = sum.Plus(n)
		}
	}
	return sum
}

// changes counts the services that are not the same in two descriptors. Either may
// be nil.
func changes(old, next *api.Application) (n uint64) {
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

// bury keeps the count of an application that is forgotten.
func (t *tx) bury(app *wire.Application) {
	if app.Changes == 0 || records.Among(t.m.unread, tallyTable.Key(wire.TallyGone)) {
		return
	}
	var sum wire.Tally
	if n := tallyTable.Get(t.rows, wire.TallyGone); n != nil {
		sum = *n
	}
	sum.Changes += app.Changes
	tallyTable.Put(t.rows, wire.TallyGone, &sum)
}
