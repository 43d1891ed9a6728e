package edits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/standing"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/notify"
	"github.com/verge-edge/verge/internal/root/revisions"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ChangeApp stores what change makes of an application that is here and not being deleted; nil
// leaves it as it is.
func ChangeApp(ctx context.Context, c *core.Core, name string,
	change func(t *state.Tx, old *record.Application) (*record.Application, error)) error {
	return core.Update(ctx, c, time.Now(), func(t *state.Tx) error {
		old := t.Model.Apps[name]
		switch {
		case old == nil:
			return NoApp(name)
		case !old.Deleting.IsZero():
			return beingDeleted(old)
		}
		next, err := change(t, old)
		if err != nil || next == nil {
			return err
		}
		return PutApp(t, next)
	})
}

// PutApp makes an application the one that counts. Its errors are for people.
func PutApp(t *state.Tx, app *record.Application) error {
	old := t.Model.Apps[app.Name]
	if old == nil || old.Revision != app.Revision {
		app.Held = revisions.Carried(old, app)
	}
	if err := Storable(t.Model, app); err != nil {
		return err
	}
	// What it was is kept in the same write in which it becomes something else.
	if err := revisions.Retire(t, app); err != nil {
		return err
	}
	state.AppTable.Put(t.Rows, app.Name, app)
	notify.TellApp(t, app, old)
	return nil
}

// Storable says why an application may not be stored; nil if it may.
func Storable(m *state.Model, app *record.Application) error {
	if err := namespaces.Fits(m, app); err != nil {
		return err
	}
	data, err := json.Marshal(app)
	if err != nil {
		return fmt.Errorf("encoding the application: %w", err)
	}
	if len(data) > bus.MaxValueBytes {
		return wire.Problemf(413, "too-large", "split it into several applications",
			"the application is too large to be stored", "%d bytes, at most %d", len(data), bus.MaxValueBytes)
	}
	return nil
}

func beingDeleted(app *record.Application) error {
	return wire.Problemf(409, "deleting", "wait until it is gone: verge get applications",
		"the application is being deleted", "%s, since %s", app.Name, app.Deleting.Format(time.RFC3339))
}

// takeScaled says which numbers, set by commands, the descriptor of app overrides,
// and keeps the note of the others. It simply wins, as users of kubectl expect.
func takeScaled(app, old *record.Application) (warnings []string) {
	for _, name := range records.SortedKeys(old.Scaled) {
		was, svc := old.Scaled[name], app.Spec.Services[name]
		switch {
		case svc == nil:
		case svc.Replicas.Min == was.Replicas:
			if app.Scaled == nil {
				app.Scaled = map[string]record.Scaled{}
			}
			app.Scaled[name] = was
		default:
			warnings = append(warnings, fmt.Sprintf("services.%s.replicas: %d, set by verge scale (%s, %s), becomes %d again",
				name, was.Replicas, was.By, was.At.Format(time.RFC3339), svc.Replicas.Min))
		}
	}
	return warnings
}

// Parsed is a descriptor with what is to be said about it.
func Parsed(source []byte) (*api.Application, []string, error) {
	spec, found, err := descriptor.Parse("descriptor", source)
	if err != nil {
		return nil, nil, rest.InvalidDescriptor(err)
	}
	var warnings []string
	for _, w := range found {
		warnings = append(warnings, w.String())
	}
	return spec, warnings, nil
}

// Accept says what applying a descriptor makes of its application, and what that
// changes; or why it is refused. It changes nothing.
func Accept(m *state.Model, who access.Who, spec *api.Application, source []byte, now time.Time) (*record.Application,
	apiv1.ApplyResult, error) {
	res := apiv1.ApplyResult{Name: spec.Application, Change: "created", Revision: 1, Changes: len(spec.Services)}
	old := m.Apps[spec.Application]
	app := &record.Application{
		V: wire.Version, Name: spec.Application, Revision: 1, Source: string(source), Spec: spec,
		Created: now, Applied: now, Changes: counters.Changes(nil, spec),
	}
	if err := namespaces.Admits(m, who, app, old); err != nil {
		return nil, res, err
	}
	if err := hostsFree(m, who, spec); err != nil {
		return nil, res, err
	}
	if err := netlease.AddressesFree(m, who, spec); err != nil {
		return nil, res, err
	}
	res.Warnings = secrets.Missing(m, app)
	if old == nil {
		return app, res, nil
	}
	if !old.Deleting.IsZero() {
		return nil, res, beingDeleted(old)
	}
	if records.Same(old.Spec, spec) {
		res.Change, res.Revision, res.Changes = "unchanged", old.Revision, 0
		return old, res, nil
	}
	n := counters.Changes(old.Spec, spec)
	res.Change, res.Revision, res.Changes = "updated", old.Revision+1,
		int(n) //nolint:gosec // no more than there are services
	app.Revision, app.Created, app.Restarts, app.Stops, app.Number = res.Revision, old.Created, old.Restarts,
		old.Stops, old.Number
	app.Changes = old.Changes + n
	app.Changed, app.Holds = revisions.Changed(old.Spec, spec), old.Holds
	for _, svc := range records.SortedKeys(app.Holds) {
		if h := app.Holds[svc]; h.Paused && spec.Services[svc] != nil && old.Spec.Services[svc] != nil &&
			!old.Spec.Services[svc].SameProgram(spec.Services[svc]) {
			res.Warnings = append(res.Warnings,
				fmt.Sprintf("services.%s: its rollout is paused%s, and waits: verge rollout resume %s/%s", svc,
					ByWhom(h.By), app.Name, svc))
		}
	}
	res.Warnings = append(res.Warnings, takeScaled(app, old)...)
	return app, res, nil
}

// NoApp is the error for an application that is not here.
func NoApp(name string) error {
	return wire.Problemf(404, "no-such-application", "verge get applications", "there is no such application",
		"%s is not known", name)
}

// UnknownPlace says of the answer for the k-th former place that the cluster knows of fewer, or
// of none since it is of a version before.
func UnknownPlace(chunk rpc.LogChunk, k int, err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == "no-former-log" || err == nil && chunk.Former != k
}

// hostsFree says whether no other application has what an ingress of spec takes for
// itself. Who may not see the other is not told which it is.
func hostsFree(m *state.Model, who access.Who, spec *api.Application) error {
	taken := standing.Claims{}
	for _, name := range records.SortedKeys(m.Apps) {
		app := m.Apps[name]
		if name == spec.Application {
			continue
		}
		for svc, s := range app.Spec.Services {
			by := "another application"
			if state.MaySee(who, app) {
				by = name + "." + svc
			}
			taken.Add(by, wire.NamespaceOf(app.Spec), s.Ports)
		}
	}
	namespace := wire.NamespaceOf(spec)
	var had []api.Port
	if old := m.Apps[spec.Application]; old != nil && wire.NamespaceOf(old.Spec) == namespace {
		for _, s := range old.Spec.Services {
			had = append(had, s.Ports...)
		}
	}
	return taken.Free(spec, namespaces.StandingOf(m, namespace), namespaces.PublishRules(m), had)
}

// ByWhom is who did it, in words that follow what was done.
func ByWhom(by string) string {
	if by == "" {
		return ""
	}
	return " by " + by
}

// NoService is the error for a service that the application does not have.
func NoService(app, service string) error {
	return wire.Problemf(404, "no-such-service", "verge get services --app "+app, "there is no such service",
		"%s.%s is not known", app, service)
}
