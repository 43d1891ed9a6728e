package root

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// maxLocals bounds the local changes, and the conflicts, that are kept of one
// cluster; a sound one has fewer.
const maxLocals = 2000

// sites is what a cluster reports about changes that were made there without the
// root. It has no effect here but to be shown: what counts at the site is the
// site's until an apply says something new.
type sites struct {
	locals    map[string]*wire.LocalChange // by app.service
	conflicts map[string]*wire.Conflict    // by id
}

// takeLocal takes over a change of what a cluster reports, if it is one of these;
// ok says whether it is.
func (c *core) takeLocal(cl *cluster, ch wire.Change, now time.Time) (ok bool, err error) {
	if key, found := strings.CutPrefix(ch.Key, wire.ReportedLocal); found {
		return true, c.takeLocalChange(cl, key, ch, now)
	}
	key, found := strings.CutPrefix(ch.Key, wire.ReportedConflict)
	if !found {
		return false, nil
	}
	old := cl.conflicts[key]
	if ch.Deleted {
		delete(cl.conflicts, key)
		return true, nil
	}
	var x wire.Conflict
	if err := json.Unmarshal(ch.Value, &x); err != nil {
		return true, err
	}
	if x.ID != key || len(key) > 30 {
		return true, fmt.Errorf("it is about conflict %q", cut(x.ID, maxName))
	}
	if old == nil && len(cl.conflicts) >= maxLocals {
		return true, fmt.Errorf("%d conflicts of it are kept already", maxLocals)
	}
	checkLocal(&x.LocalChange, cl.Name)
	x.Root, x.Spec = cut(x.Root, maxWords), nil
	if cl.conflicts == nil {
		cl.conflicts = map[string]*wire.Conflict{}
	}
	cl.conflicts[key] = &x
	if old == nil {
		c.say(now, "cluster/"+cl.Name, "application/"+x.App, "conflict "+key+" "+words(&x.LocalChange, now)+" gave way to the root: "+x.Root)
	}
	return true, nil
}

func (c *core) takeLocalChange(cl *cluster, key string, ch wire.Change, now time.Time) error {
	old := cl.locals[key]
	if ch.Deleted {
		delete(cl.locals, key)
		return nil
	}
	var l wire.LocalChange
	if err := json.Unmarshal(ch.Value, &l); err != nil {
		return err
	}
	if l.Key() != key {
		return fmt.Errorf("it is about %q", cut(l.Key(), maxName))
	}
	if old == nil && len(cl.locals) >= maxLocals {
		return fmt.Errorf("%d local changes of it are kept already", maxLocals)
	}
	checkLocal(&l, cl.Name)
	if cl.locals == nil {
		cl.locals = map[string]*wire.LocalChange{}
	}
	cl.locals[key] = &l
	c.tellQuota(l.App, l.Namespace, now)
	if old == nil || old.Change != l.Change {
		c.say(now, "cluster/"+cl.Name, "application/"+l.App, words(&l, now))
	}
	return nil
}

// checkLocal cuts off what is longer than it can need to be.
func checkLocal(l *wire.LocalChange, cluster string) {
	l.Cluster = cluster // its identity is the account it used, not what it says
	l.App, l.Service, l.Namespace = cut(l.App, maxName), cut(l.Service, maxName), cut(l.Namespace, maxName)
	l.Change, l.By = cut(l.Change, maxWords), cut(l.By, maxName)
	l.Devices = slices.DeleteFunc(l.Devices[:min(len(l.Devices), api.MaxDeviceTypes)], func(d api.DeviceNeed) bool {
		return !api.IsDeviceType(d.Type) || d.Count < 1 || d.Count > api.MaxDevices
	})
	for i := range l.Devices {
		l.Devices[i].Model = nil // for the count it is of no interest
	}
}

// words is a local change in a sentence.
func words(l *wire.LocalChange, now time.Time) string {
	return fmt.Sprintf("cluster %s: %s %s by %s %s ago (local)", l.Cluster, l.Service, l.Change, l.By, max(0, now.Sub(l.At)).Round(time.Second))
}

// localViews are the local changes and conflicts of an application (app "": of all)
// that clusters have reported.
func (m *model) localViews(app string) wire.LocalView {
	v := wire.LocalView{Changes: []wire.LocalChange{}, Conflicts: []wire.Conflict{}}
	for _, name := range records.SortedKeys(m.clusters) {
		c := m.clusters[name].localViews(app)
		v.Changes, v.Conflicts = append(v.Changes, c.Changes...), append(v.Conflicts, c.Conflicts...)
	}
	return v
}

func (c *cluster) localViews(app string) wire.LocalView {
	var v wire.LocalView
	for _, key := range records.SortedKeys(c.locals) {
		if l := c.locals[key]; app == "" || l.App == app {
			v.Changes = append(v.Changes, *l)
		}
	}
	for _, x := range c.conflicts {
		if app == "" || x.App == app {
			v.Conflicts = append(v.Conflicts, *x)
		}
	}
	slices.SortFunc(v.Conflicts, func(a, b wire.Conflict) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return v
}

// seenLocal are the local changes and conflicts that who asks may see.
func (c *core) seenLocal(ctx context.Context) ([]wire.LocalChange, []wire.Conflict) {
	c.mu.Lock()
	v := c.m.localViews("")
	c.mu.Unlock()
	who := access.From(ctx)
	return access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return rest.OfLocal(l, false) }),
		access.Visible(who, v.Conflicts, func(x wire.Conflict) access.Object { return rest.OfLocal(x.LocalChange, false) })
}

// localOf says what was changed about a service at its sites, "" for nothing.
func (m *model) localOf(app, service string) string {
	var out []string
	for _, name := range records.SortedKeys(m.clusters) {
		if l := m.clusters[name].locals[app+"."+service]; l != nil {
			out = append(out, fmt.Sprintf("%s at cluster %s by %s (local)", l.Change, name, l.By))
		}
	}
	return strings.Join(out, ", ")
}

// LocalChanges implements rest.Backend.
func (b backend) LocalChanges(context.Context) (wire.LocalView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.m.localViews(""), nil
}

// AckConflict implements rest.Backend.
func (b backend) AckConflict(_ context.Context, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, cl := range b.m.clusters {
		if cl.conflicts[id] != nil {
			return rest.ElsewhereAt("acknowledging conflict "+id, cl.Name)
		}
	}
	return wire.Problemf(404, "no-such-conflict", "verge local", "there is no such conflict", "%s is not known", id)
}
