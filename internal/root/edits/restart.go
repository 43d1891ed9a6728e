package edits

import (
	"maps"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// NextRestart is the N of a new mark of app: greater than that of any that was
// given or heeded, even if this root was restored from an older copy since.
func NextRestart(m *state.Model, app *record.Application) uint64 {
	var last uint64
	for _, r := range app.Restarts {
		last = max(last, r.N)
	}
	for _, r := range app.Stops {
		last = max(last, r.N)
	}
	for _, c := range m.Clusters {
		for _, svc := range app.Spec.ServiceNames() {
			if r := c.Jobs[app.Name+"."+svc]; r != nil {
				last = max(last, r.Run.Restarted, r.Stopped)
			}
		}
		for _, rep := range c.Seen {
			if rep.App == app.Name {
				last = max(last, rep.Restarted)
			}
		}
	}
	return last + 1
}

// Marked are the marks of app with a new one for what q names. A mark of a
// service takes the place of those of its instances; those of instances that are
// no more are dropped.
func Marked(m *state.Model, app *record.Application, q apiv1.RestartRequest, r wire.Restart) map[string]wire.Restart {
	out := maps.Clone(app.Restarts)
	if out == nil {
		out = map[string]wire.Restart{}
	}
	for key := range out {
		svc, ordinal, single := strings.Cut(key, ".")
		covered := q.Ordinal == nil && (q.Service == "" || q.Service == svc)
		if app.Spec.Services[svc] == nil || single && (covered || m.Insts[app.Name+"."+svc+"."+ordinal] == nil) {
			delete(out, key)
		}
	}
	for _, svc := range app.Spec.ServiceNames() {
		switch {
		case q.Service != "" && q.Service != svc:
		case q.Ordinal != nil:
			out[svc+"."+strconv.Itoa(*q.Ordinal)] = r
		default:
			out[svc] = r
		}
	}
	return out
}
