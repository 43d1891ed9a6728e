package root

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// backend is the root's HTTP interface.
type backend struct{ *Root }

// Apply implements rest.Backend. What it accepts is durable when it returns.
func (b backend) Apply(ctx context.Context, source []byte, dryRun bool) (wire.ApplyResult, error) {
	spec, warnings, err := parsed(source)
	if err != nil {
		return wire.ApplyResult{}, err
	}
	var agreed hooks.Agreed
	if !dryRun {
		if agreed, err = b.gateApply(ctx, spec, source); err != nil {
			return wire.ApplyResult{}, err
		}
		warnings = append(warnings, agreed.Warnings...)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.ApplyResult{}, unstored(err)
	}
	app, res, err := b.m.accept(access.From(ctx), spec, source, now)
	if err != nil {
		return wire.ApplyResult{}, err
	}
	if err := agreed.Still(res); err != nil {
		return wire.ApplyResult{}, err
	}
	if res.Change != "unchanged" {
		app.By = rest.Caller(ctx)
	}
	res.Warnings = append(warnings, res.Warnings...)
	old := b.m.apps[app.Name]
	switch {
	case dryRun:
		return res, nil
	case res.Change == "unchanged" && old.Recovered == nil && old.Unclaimed == nil:
		return res, nil
	case res.Change == "unchanged":
		// The same, but as somebody wrote it.
		next := *old
		next.Source, next.Recovered, next.Unclaimed = string(source), nil, nil
		return res, b.putApp(ctx, &next)
	}
	if err := b.putApp(ctx, app); err != nil {
		return wire.ApplyResult{}, err
	}
	b.events.Add(now, tier, "application/"+app.Name, fmt.Sprintf("%s, revision %d", res.Change, res.Revision))
	return res, nil
}

// parsed is a descriptor with what is to be said about it.
func parsed(source []byte) (*api.Application, []string, error) {
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

// accept says what applying a descriptor makes of its application, and what that
// changes; or why it is refused. It changes nothing.
func (m *model) accept(who access.Who, spec *api.Application, source []byte, now time.Time) (*wire.Application, wire.ApplyResult, error) {
	res := wire.ApplyResult{Name: spec.Application, Change: "created", Revision: 1, Changes: len(spec.Services)}
	old := m.apps[spec.Application]
	app := &wire.Application{V: wire.Version, Name: spec.Application, Revision: 1, Source: string(source), Spec: spec, Created: now, Applied: now, Changes: changes(nil, spec)}
	if err := m.admits(who, app, old); err != nil {
		return nil, res, err
	}
	if err := m.hostsFree(who, spec); err != nil {
		return nil, res, err
	}
	if err := m.addressesFree(who, spec); err != nil {
		return nil, res, err
	}
	res.Warnings = m.missingSecrets(app)
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
	n := changes(old.Spec, spec)
	res.Change, res.Revision, res.Changes = "updated", old.Revision+1, int(n) //nolint:gosec // no more than there are services
	app.Revision, app.Created, app.Restarts, app.Stops, app.Number = res.Revision, old.Created, old.Restarts, old.Stops, old.Number
	app.Changes = old.Changes + n
	app.Changed, app.Holds = changed(old.Spec, spec), old.Holds
	for _, svc := range records.SortedKeys(app.Holds) {
		if h := app.Holds[svc]; h.Paused && spec.Services[svc] != nil && old.Spec.Services[svc] != nil && !old.Spec.Services[svc].SameProgram(spec.Services[svc]) {
			res.Warnings = append(res.Warnings, fmt.Sprintf("services.%s: its rollout is paused%s, and waits: verge rollout resume %s/%s", svc, byWhom(h.By), app.Name, svc))
		}
	}
	res.Warnings = append(res.Warnings, takeScaled(app, old)...)
	return app, res, nil
}

func unstored(err error) error {
	if p := records.Refused(err); p != nil {
		return p
	}
	if errors.Is(err, bus.ErrUnknownOutcome) {
		return wire.Problemf(503, "outcome-unknown", "look (verge get applications) before you try again", "it is not known whether this was stored", "%v", err)
	}
	return wire.Problemf(507, "not-stored", "free some space or repair the disk of the root, then try again", "nothing was changed: it could not be stored", "%v", err)
}

// Delete implements rest.Backend.
func (b backend) Delete(ctx context.Context, name string) error {
	if _, err := b.gate(ctx, wire.GateDelete, name, "its end is asked for"); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	app := b.m.apps[name]
	if app == nil {
		return noApp(name)
	}
	if !app.Deleting.IsZero() {
		return nil
	}
	next := *app
	next.Deleting = time.Now()
	next.Changes += changes(app.Spec, nil)
	if err := b.putApp(ctx, &next); err != nil {
		return err
	}
	b.events.Add(next.Deleting, tier, "application/"+name, "deleting")
	return nil
}

func noApp(name string) error {
	return wire.Problemf(404, "no-such-application", "verge get applications", "there is no such application", "%s is not known", name)
}

// Applications implements rest.Backend.
func (b backend) Applications(context.Context) ([]wire.AppView, error) { return b.apps(), nil }

// Application implements rest.Backend.
func (b backend) Application(_ context.Context, name string) (wire.AppView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	app := b.m.apps[name]
	if app == nil {
		return wire.AppView{}, noApp(name)
	}
	v := b.m.appView(app)
	v.Descriptor = app.Source
	return v, nil
}

// Instances implements rest.Backend.
func (b backend) Instances(_ context.Context, app, service string) ([]wire.InstanceView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	out := []wire.InstanceView{}
	for _, i := range b.m.reads().instances(app) {
		if (service == "" || i.Service == service) && !b.m.hidden(i) {
			out = append(out, b.m.view(i, now))
		}
	}
	return append(out, b.m.extras(app, service, now)...), nil
}

// Instance implements rest.Backend.
func (b backend) Instance(_ context.Context, id wire.InstanceID) (wire.InstanceView, error) {
	return b.find(id)
}

// Explain implements rest.Backend.
func (b backend) Explain(ctx context.Context, id wire.InstanceID) (wire.Explanation, error) {
	out := wire.Explanation{Instance: id}
	v, err := b.find(id)
	if err != nil {
		return out, err
	}
	e, err := b.store.Get(ctx, keyWhy+id)
	// The root's decision compares all clusters: it is not for who may see one.
	whole := access.May(access.From(ctx), access.See, access.Object{Kind: access.Instance, Name: id, Namespace: v.Namespace}) == nil
	switch {
	case !whole:
		out.Notes = append(out.Notes, "the root's decision, which compares clusters, is shown to those who have a role in namespace "+v.Namespace)
	case errors.Is(err, bus.ErrNotFound) && v.Ordinal >= wire.SurgeOrdinals:
		out.Decisions = append(out.Decisions, b.standsIn(v))
	case errors.Is(err, bus.ErrNotFound):
		out.Notes = append(out.Notes, "the root has not decided about it yet")
	case err != nil:
		return out, fmt.Errorf("reading the root's decision: %w", err)
	default:
		var rec place.Record
		if err := json.Unmarshal(e.Value, &rec); err != nil {
			return out, fmt.Errorf("stored decision about %s: %w", id, err)
		}
		out.Decisions = append(out.Decisions, wire.Explained{Tier: tier, At: rec.At, Decision: rec.Decision})
	}
	if v.Cluster == "" {
		return out, nil
	}
	var p *wire.Problem
	switch err := b.details(v.Cluster, "its decision is not known now"); {
	case errors.As(err, &p) && p.Code != "kept-private":
		out.Notes = append(out.Notes, fmt.Sprintf("cluster %s could not be asked for its decision: %s", v.Cluster, p.Detail))
	case err != nil:
		out.Notes = append(out.Notes, fmt.Sprintf("cluster %s keeps its own decision to itself: ask it directly (verge --context FILE explain instance/%s)", v.Cluster, id))
	default:
		var part wire.Explanation
		if err := b.ask(ctx, v.Cluster, wire.Ask{What: "explain", Instance: id}, &part); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("cluster %s could not be asked for its decision: %v", v.Cluster, err))
		}
		out.Decisions = append(out.Decisions, part.Decisions...)
		out.Notes = append(out.Notes, part.Notes...)
	}
	return out, nil
}

// Logs implements rest.Backend.
func (b backend) Logs(ctx context.Context, id wire.InstanceID, q wire.LogAsk) (wire.LogChunk, error) {
	var chunk wire.LogChunk
	v, err := b.find(id)
	if err != nil {
		return chunk, err
	}
	if q.Former > 0 {
		return b.formerLog(ctx, v, q)
	}
	if v.Cluster == "" {
		return chunk, wire.Problemf(409, "not-placed", "verge describe instance/"+id, "there is no log yet", "%s is %s: %s", id, v.State, v.Reason)
	}
	if err := b.details(v.Cluster, "the log cannot be read here"); err != nil {
		return chunk, err
	}
	err = b.ask(ctx, v.Cluster, q.Logs(id), &chunk)
	return chunk, unanswered(err, v.Cluster, "log-unavailable", "the log cannot be read now")
}

// formerLog finds a log on a worker where an instance was: in its cluster first, then in the
// others, which may have had it before. The q.Former-th of all is meant.
func (b backend) formerLog(ctx context.Context, v wire.InstanceView, q wire.LogAsk) (wire.LogChunk, error) {
	left := q.Former
	read := func(name string) (wire.LogChunk, bool, error) {
		ask := q
		ask.Former = left
		var chunk wire.LogChunk
		err := b.ask(ctx, name, ask.Logs(v.ID), &chunk)
		knows := !unknownPlace(chunk, left, err)
		chunk.Former = q.Former
		return chunk, knows, unanswered(err, name, "log-unavailable", "the former log cannot be read now")
	}
	if v.Cluster != "" && b.details(v.Cluster, "") == nil {
		if chunk, knows, err := read(v.Cluster); knows {
			return chunk, err
		}
		left -= b.formerPlaces(ctx, v.Cluster, v.ID, left-1)
	}
	var names []string
	for _, cl := range b.clusters() {
		if cl.Connected && cl.Name != v.Cluster && b.details(cl.Name, "") == nil {
			names = append(names, cl.Name)
		}
	}
	known := make([]int, len(names))
	var wg sync.WaitGroup
	for n, name := range names {
		wg.Go(func() { known[n] = b.formerPlaces(ctx, name, v.ID, left) })
	}
	wg.Wait()
	for n, name := range names {
		if left <= known[n] {
			chunk, _, err := read(name)
			return chunk, err
		}
		left -= known[n]
	}
	return wire.LogChunk{}, wire.Problemf(404, "no-former-log", "verge logs "+v.ID, "there is no such former log", "no cluster that shares its details knows of so many former places of %s", v.ID)
}

// unknownPlace says of the answer for the k-th former place that the cluster knows of fewer, or
// of none since it is of a version before.
func unknownPlace(chunk wire.LogChunk, k int, err error) bool {
	var p *wire.Problem
	return errors.As(err, &p) && p.Code == "no-former-log" || err == nil && chunk.Former != k
}

// formerPlaces is how many places a cluster knows where an instance was, at most that many. A
// place of which the log cannot be read is one.
func (b backend) formerPlaces(ctx context.Context, cluster string, id wire.InstanceID, most int) (n int) {
	for n < most {
		var chunk wire.LogChunk
		err := b.ask(ctx, cluster, wire.LogAsk{Former: n + 1, Max: 1}.Logs(id), &chunk)
		if unknownPlace(chunk, n+1, err) {
			return n
		}
		n++
		if err != nil && !errors.As(err, new(*wire.Problem)) {
			return n // whoever asks for it is told that
		}
	}
	return n
}

// Clusters implements rest.Backend.
func (b backend) Clusters(context.Context) ([]wire.ClusterView, error) { return b.clusters(), nil }

// Workers implements rest.Backend.
func (b backend) Workers(ctx context.Context) ([]wire.WorkerView, error) {
	out, _ := b.workers(ctx, askTimeout)
	if len(out) > 0 {
		return out, nil
	}
	for _, cl := range seen(ctx, b.clusters()) {
		if cl.Aggregate != nil && !cl.Aggregate.Details {
			return nil, wire.Problemf(403, "kept-private", rest.ContextOf(cl.Name)+"; or its operator starts it with --share-details", "workers cannot be seen here", "cluster %s keeps its details to itself", cl.Name)
		}
	}
	return out, nil
}

// Entries implements rest.Backend.
func (b backend) Entries(ctx context.Context, cluster, worker string) ([]wire.EntryView, error) {
	if err := b.details(cluster, "the worker cannot be asked here"); err != nil {
		return nil, err
	}
	list := []wire.EntryView{}
	err := b.ask(ctx, cluster, wire.Ask{What: "entries", Worker: worker}, &list)
	return list, unanswered(err, cluster, "worker-unavailable", "the worker cannot be asked now")
}

// Events implements rest.Backend.
func (b backend) Events(ctx context.Context, after uint64, wait time.Duration) (wire.EventPage, error) {
	return b.events.After(ctx, after, wait), nil
}

// Status implements rest.Backend.
func (b backend) Status(ctx context.Context) (wire.StatusView, error) {
	s := b.status(ctx)
	if !access.From(ctx).Admin {
		return s, nil // others may not know of all clusters
	}
	known := map[string]bool{}
	for _, c := range s.Clusters {
		known[c.Name] = true
	}
	s.Problems = append(s.Problems, b.callers.strangers(known, time.Now())...)
	s.Problems = append(s.Problems, b.caProblems()...)
	return s, nil
}

// CreateToken implements rest.Backend.
func (b backend) CreateToken(ctx context.Context, r wire.TokenRequest) (wire.TokenReply, error) {
	ttl := time.Duration(r.TTLSeconds) * time.Second
	if r.Gateway && r.Kind != "worker" {
		return wire.TokenReply{}, rest.NoGatewayToken(r.Kind)
	}
	if r.Uses > 1 {
		return wire.TokenReply{}, rest.OneUseToken()
	}
	switch r.Kind {
	case "cluster":
		return b.clusterToken(ctx, r.Cluster, ttl)
	case "api":
		return b.ledger.NewBearer(ctx, access.From(ctx).Name, ttl, b.clock.Now())
	}
	return wire.TokenReply{}, rest.Elsewhere("making a token for a "+r.Kind, "its cluster")
}

// Ready implements rest.Backend.
func (b backend) Ready() error { return b.store.WriteError() }
