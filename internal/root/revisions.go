package root

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// keyRevision + application.number: wire.AppRevision, what an application was before.
const keyRevision = "rev."

// maxChanged bounds what is said of what a revision changed.
const maxChanged = 20

// history is what applications were before, without their descriptors, by name and from
// the oldest on.
type history map[string][]wire.AppRevision

// add adds a revision, or replaces it.
func (h history) add(r wire.AppRevision) {
	list := slices.DeleteFunc(slices.Clone(h[r.App]), func(o wire.AppRevision) bool { return o.Revision == r.Revision })
	list = append(list, r)
	slices.SortFunc(list, func(a, b wire.AppRevision) int { return cmp.Compare(a.Revision, b.Revision) })
	h[r.App] = list
}

// drop forgets a revision by its key, APPLICATION.NUMBER.
func (h history) drop(key string) {
	app, number, _ := strings.Cut(key, ".")
	h[app] = slices.DeleteFunc(slices.Clone(h[app]), func(r wire.AppRevision) bool { return strconv.FormatUint(r.Revision, 10) == number })
	if len(h[app]) == 0 {
		delete(h, app)
	}
}

// revisionID is the key of a revision in its table.
func revisionID(app string, n uint64) string { return app + "." + strconv.FormatUint(n, 10) }

// sourceOf is the descriptor of an application: as it was sent, else in the same words.
func sourceOf(app *wire.Application) (string, error) {
	if app.Source != "" {
		return app.Source, nil
	}
	data, err := json.MarshalIndent(app.Spec, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the descriptor of %s: %w", app.Name, err)
	}
	return string(data), nil
}

// retire keeps what an application was before next.
func (t *tx) retire(next *wire.Application) (err error) {
	old, list := t.m.apps[next.Name], t.m.history[next.Name]
	if old == nil || old.Revision == next.Revision {
		return nil
	}
	r := t.m.revision(old, next.Applied)
	r.V = wire.Version
	if r.Descriptor, err = sourceOf(old); err != nil {
		return err
	}
	revisionTable.Put(t.rows, revisionID(r.App, r.Revision), &r)
	for _, o := range list[:max(0, len(list)+1-wire.MaxRevisions)] {
		revisionTable.Put(t.rows, revisionID(o.App, o.Revision), nil)
	}
	return nil
}

// revision is an application as one of its revisions.
func (m *model) revision(app *wire.Application, now time.Time) wire.AppRevision {
	return wire.AppRevision{App: app.Name, Revision: app.Revision, By: app.By, When: app.Applied, Why: app.Why, Changed: app.Changed, Held: m.judged(app, now)}
}

// changed says in words what leads from one descriptor to another.
func changed(old, next *api.Application) (out []string) {
	for _, s := range plan.Services(old, next) {
		switch {
		case s.Change == wire.ServiceUnchanged:
			continue
		case s.Change == wire.ServiceScaled:
			out = append(out, fmt.Sprintf("%s: %d → %d replicas", s.Name, s.From, s.To))
		case s.Change != wire.ServiceChanged:
			out = append(out, s.Name+": "+s.Change)
		default:
			var fields []string
			for _, f := range s.Fields {
				fields = append(fields, f.Field)
			}
			out = append(out, s.Name+": "+cut(strings.Join(fields, ", "), 200))
		}
		if len(out) >= maxChanged {
			return append(out, "and others")
		}
	}
	return out
}

// Revisions implements rest.Backend: from the newest on.
func (b backend) Revisions(_ context.Context, name string) ([]wire.AppRevision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	app := b.m.apps[name]
	if app == nil {
		return nil, noApp(name)
	}
	cur := b.m.revision(app, time.Now())
	cur.Current = true
	out := []wire.AppRevision{cur}
	for _, r := range slices.Backward(b.m.history[name]) {
		out = append(out, r)
	}
	return out, nil
}

// Revision implements rest.Backend.
func (b backend) Revision(ctx context.Context, name string, n uint64) (wire.AppRevision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readRevision(ctx, name, n)
}

// readRevision reads a revision with its descriptor. The mutex is held.
func (c *core) readRevision(ctx context.Context, name string, n uint64) (r wire.AppRevision, err error) {
	app := c.m.apps[name]
	if app == nil {
		return r, noApp(name)
	}
	if n == app.Revision {
		r = c.m.revision(app, time.Now())
		r.Current = true
		r.Descriptor, err = sourceOf(app)
		return r, err
	}
	e, err := c.store.Get(ctx, revisionTable.Key(revisionID(name, n)))
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return r, wire.Problemf(404, "no-such-revision", "verge rollout history "+name, "there is no such revision", "revision %d of %s is not kept: the last %d are", n, name, wire.MaxRevisions)
	case err != nil:
		return r, fmt.Errorf("reading revision %d of %s: %w", n, name, err)
	}
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return r, fmt.Errorf("stored revision %d of %s: %w", n, name, err)
	}
	return r, nil
}

// Undo implements rest.Backend.
func (b backend) Undo(ctx context.Context, name string, q wire.RolloutRequest) (wire.ApplyResult, error) {
	warnings, err := b.gate(ctx, wire.GateUndo, name, strings.TrimSpace("an earlier revision is to be brought back "+q.Service))
	if err != nil {
		return wire.ApplyResult{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	old, err := b.changeable(ctx, name, now)
	if err != nil {
		return wire.ApplyResult{}, err
	}
	if q.Service != "" && old.Spec.Services[q.Service] == nil {
		return wire.ApplyResult{}, noService(name, q.Service)
	}
	to := q.To
	if to == 0 {
		if to, err = b.lastHeld(ctx, old, q.Service); err != nil {
			return wire.ApplyResult{}, err
		}
	}
	res, err := b.undo(ctx, access.From(ctx), old, q.Service, to, rest.Caller(ctx), q.Reason, now)
	res.Warnings = append(warnings, res.Warnings...)
	if err == nil {
		res.Undo = to
	}
	return res, err
}

// undo applies what a revision was: the whole of it, or one service. The mutex is held.
func (c *core) undo(ctx context.Context, who access.Who, old *wire.Application, service string, to uint64, by, why string, now time.Time) (res wire.ApplyResult, err error) {
	rev, err := c.readRevision(ctx, old.Name, to)
	if err != nil {
		return res, err
	}
	spec, _, err := descriptor.Parse("descriptor", []byte(rev.Descriptor))
	if err != nil {
		return res, wire.Problemf(409, "not-applicable", "verge rollout history "+old.Name+" --revision "+strconv.FormatUint(to, 10)+", and apply it with the necessary changes",
			"that revision cannot be brought back as it is", "%v", err)
	}
	source := rev.Descriptor
	if service != "" {
		if source, spec, err = withService(old.Spec, spec, service, to); err != nil {
			return res, err
		}
	}
	app, res, err := c.m.accept(who, spec, []byte(source), now)
	if err != nil || res.Change == "unchanged" {
		return res, err
	}
	app.By, app.Why = by, fmt.Sprintf("undo to revision %d", to)
	if service != "" {
		app.Why = fmt.Sprintf("undo of %s to revision %d", service, to)
	}
	if why != "" {
		app.Why += ": " + cut(why, maxWords)
	}
	if err := c.putApp(ctx, app); err != nil {
		return res, err
	}
	c.events.Add(now, tier, "application/"+app.Name, fmt.Sprintf("%s%s, revision %d", app.Why, byWhom(by), res.Revision))
	return res, nil
}

func byWhom(by string) string {
	if by == "" {
		return ""
	}
	return " by " + by
}

// withService is a descriptor in which one service is as in another.
func withService(cur, was *api.Application, service string, to uint64) (string, *api.Application, error) {
	if was.Services[service] == nil {
		return "", nil, wire.Problemf(409, "no-such-service", "verge rollout undo "+cur.Application+" --to "+strconv.FormatUint(to, 10), "that revision has no such service", "%s is not in revision %d", service, to)
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

func noService(app, service string) error {
	return wire.Problemf(404, "no-such-service", "verge get services --app "+app, "there is no such service", "%s.%s is not known", app, service)
}
