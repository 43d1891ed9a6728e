package localedit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// MaxChanges bounds the local changes, and the conflicts, that are kept of one
// cluster; a sound one has fewer.
const MaxChanges = 2000

// CheckLocal cuts off what is longer than it can need to be.
func CheckLocal(l *wire.LocalChange, cluster string) {
	l.Cluster = cluster // its identity is the account it used, not what it says
	l.App, l.Service, l.Namespace = state.Cut(l.App, state.MaxName), state.Cut(l.Service, state.MaxName),
		state.Cut(l.Namespace, state.MaxName)
	l.Change, l.By = state.Cut(l.Change, state.MaxWords), state.Cut(l.By, state.MaxName)
	l.Devices = slices.DeleteFunc(l.Devices[:min(len(l.Devices), api.MaxDeviceTypes)], func(d api.DeviceNeed) bool {
		return !api.IsDeviceType(d.Type) || d.Count < 1 || d.Count > api.MaxDevices
	})
	for i := range l.Devices {
		l.Devices[i].Model = nil // for the count it is of no interest
	}
}

// Words is a local change in a sentence.
func Words(l *wire.LocalChange, now time.Time) string {
	return fmt.Sprintf("cluster %s: %s %s by %s %s ago (local)", l.Cluster, l.Service, l.Change, l.By,
		max(0, now.Sub(l.At)).Round(time.Second))
}

// Views are the local changes and conflicts of an application (app "": of all)
// that clusters have reported.
func Views(m *state.Model, app string) apiv1.LocalView {
	v := apiv1.LocalView{Changes: []wire.LocalChange{}, Conflicts: []wire.Conflict{}}
	for _, name := range records.SortedKeys(m.Clusters) {
		c := ViewsOf(m.Clusters[name], app)
		v.Changes, v.Conflicts = append(v.Changes, c.Changes...), append(v.Conflicts, c.Conflicts...)
	}
	return v
}

// ViewsOf returns the local changes and conflicts of an application (app "": of all) that a cluster
// has reported.
func ViewsOf(c *state.Cluster, app string) apiv1.LocalView {
	var v apiv1.LocalView
	for _, key := range records.SortedKeys(c.Locals) {
		if l := c.Locals[key]; app == "" || l.App == app {
			v.Changes = append(v.Changes, *l)
		}
	}
	for _, x := range c.Conflicts {
		if app == "" || x.App == app {
			v.Conflicts = append(v.Conflicts, *x)
		}
	}
	slices.SortFunc(v.Conflicts, func(a, b wire.Conflict) int {
		return cmp.Or(a.At.Compare(b.At),
			cmp.Compare(a.ID, b.ID))
	})
	return v
}

// Describe says what was changed about a service at its sites, "" for nothing.
func Describe(m *state.Model, app, service string) string {
	var out []string
	for _, name := range records.SortedKeys(m.Clusters) {
		if l := m.Clusters[name].Locals[app+"."+service]; l != nil {
			out = append(out, fmt.Sprintf("%s at cluster %s by %s (local)", l.Change, name, l.By))
		}
	}
	return strings.Join(out, ", ")
}
