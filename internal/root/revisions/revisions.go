package revisions

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// inRevised is the group of the application of a revision, whose key is APPLICATION.NUMBER.
func inRevised(key string, _ *apiv1.AppRevision) string {
	app, _, _ := strings.Cut(key, ".")
	return state.InApp(app, nil)
}

// Table is the revisions, by application and number; in memory without their descriptors.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Aside, Drop: "one earlier revision is forgotten: no rollout undo leads to it",
}, table.Rules[apiv1.AppRevision]{Stage: table.First, Group: inRevised, Keep: undescribed})

// undescribed is a revision as it is kept in memory.
func undescribed(r *apiv1.AppRevision) *apiv1.AppRevision {
	kept := *r
	kept.Descriptor = ""
	return &kept
}

// Key + application.number: apiv1.AppRevision, what an application was before.
const Key = "rev."

// maxChanged bounds what is said of what a revision changed.
const maxChanged = 20

// History is what applications were before, without their descriptors, by name and from
// the oldest on.
type History map[string][]apiv1.AppRevision

// add adds a revision, or replaces it.
func (h History) add(r apiv1.AppRevision) {
	list := slices.DeleteFunc(slices.Clone(h[r.App]),
		func(o apiv1.AppRevision) bool { return o.Revision == r.Revision })
	list = append(list, r)
	slices.SortFunc(list, func(a, b apiv1.AppRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	h[r.App] = list
}

// drop forgets a revision by its key, APPLICATION.NUMBER.
func (h History) drop(key string) {
	app, number, _ := strings.Cut(key, ".")
	h[app] = slices.DeleteFunc(slices.Clone(h[app]),
		func(r apiv1.AppRevision) bool { return strconv.FormatUint(r.Revision, 10) == number })
	if len(h[app]) == 0 {
		delete(h, app)
	}
}

// ID is the key of a revision in its table.
func ID(app string, n uint64) string { return app + "." + strconv.FormatUint(n, 10) }

// SourceOf is the descriptor of an application: as it was sent, else in the same words.
func SourceOf(app *record.Application) (string, error) {
	if app.Source != "" {
		return app.Source, nil
	}
	data, err := json.MarshalIndent(app.Spec, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the descriptor of %s: %w", app.Name, err)
	}
	return string(data), nil
}

// Retire keeps what an application was before next.
func Retire(t *state.Tx, next *record.Application) (err error) {
	old, list := t.Model.Apps[next.Name], Memory(t.Model).History[next.Name]
	if old == nil || old.Revision == next.Revision {
		return nil
	}
	r := Current(t.Model, old, next.Applied)
	r.V = wire.Version
	if r.Descriptor, err = SourceOf(old); err != nil {
		return err
	}
	Table.Put(t.Rows, ID(r.App, r.Revision), &r)
	for _, o := range list[:max(0, len(list)+1-wire.MaxRevisions)] {
		Table.Put(t.Rows, ID(o.App, o.Revision), nil)
	}
	return nil
}

// Current is an application as one of its revisions.
func Current(m *state.Model, app *record.Application, now time.Time) apiv1.AppRevision {
	return apiv1.AppRevision{App: app.Name, Revision: app.Revision, By: app.By, When: app.Applied, Why: app.Why,
		Changed: app.Changed, Held: judged(m, app, now)}
}

// Changed says in words what leads from one descriptor to another.
func Changed(old, next *api.Application) (out []string) {
	for _, s := range plan.Services(old, next) {
		switch {
		case s.Change == apiv1.ServiceUnchanged:
			continue
		case s.Change == apiv1.ServiceScaled:
			out = append(out, fmt.Sprintf("%s: %d → %d replicas", s.Name, s.From, s.To))
		case s.Change != apiv1.ServiceChanged:
			out = append(out, s.Name+": "+s.Change)
		default:
			var fields []string
			for _, f := range s.Fields {
				fields = append(fields, f.Field)
			}
			out = append(out, s.Name+": "+state.Cut(strings.Join(fields, ", "), 200))
		}
		if len(out) >= maxChanged {
			return append(out, "and others")
		}
	}
	return out
}

// WithService is a descriptor in which one service is as in another.
func WithService(cur, was *api.Application, service string, to uint64) (string, *api.Application, error) {
	if was.Services[service] == nil {
		return "", nil, wire.Problemf(409, "no-such-service",
			"verge rollout undo "+cur.Application+" --to "+strconv.FormatUint(to, 10),
			"that revision has no such service", "%s is not in revision %d", service, to)
	}
	next := *cur
	next.Services = map[string]*api.Service{}
	for name, s := range cur.Services {
		next.Services[name] = s
	}
	next.Services[service] = was.Services[service]
	data, err := json.MarshalIndent(&next, "", "  ")
	if err != nil {
		return "", nil, fmt.Errorf("writing the descriptor of %s: %w", cur.Application, err)
	}
	spec, _, err := descriptor.Parse("descriptor", data) // what counts is what the text says
	if err != nil {
		return "", nil, fmt.Errorf("the descriptor of %s with %s of revision %d: %w", cur.Application, service, to, err)
	}
	return string(data) + "\n", spec, nil
}

// Known is what this process knows beside what is stored.
type Known struct {
	History History // what applications were
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{History: History{}} },
	Clone: func(k *Known) *Known {
		c := &Known{History: make(History, len(k.History))}
		for app, list := range k.History {
			c.History[app] = slices.Clone(list)
		}
		return c
	},
	Derived: true,
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

func init() {
	state.Derive(state.Derivation{
		Loaded: func(m *state.Model) {
			for _, r := range Table.Rows(m.DB) {
				Memory(m).History.add(*r)
			}
		},
		Done: func(t *state.Tx) {
			for key, r := range Table.Changes(t.Rows) {
				if r == nil {
					Memory(t.Model).History.drop(key)
				} else {
					Memory(t.Model).History.add(*undescribed(r))
				}
			}
		},
	})
}
