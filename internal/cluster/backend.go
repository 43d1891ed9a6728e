package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// backend is the cluster's HTTP interface: what it can say and do for itself.
type backend struct{ *Cluster }

// Instances implements rest.Backend.
func (b backend) Instances(_ context.Context, app, service string) ([]wire.InstanceView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	var out []wire.InstanceView
	t := b.m.reads()
	for _, i := range t.Instances() {
		if (app == "" || i.App == app) && (service == "" || i.Service == service) {
			out = append(out, t.view(i, now))
		}
	}
	return out, nil
}

// view is an instance with the age of the report that it comes from.
func (t *tx) view(i *wire.Instance, now time.Time) wire.InstanceView {
	m := t.m
	v := wire.InstanceView{Instance: *i, Namespace: m.NamespaceOf(i), Source: m.Tier()}
	if w := m.Workers[i.Worker]; w != nil {
		v.Source = "worker/" + m.Name + "/" + i.Worker
		v.AgeSeconds = now.Sub(w.Heard).Seconds()
		v.Addrs = t.net.Addrs(i, w)
	}
	return v
}

// Instance implements rest.Backend.
func (b backend) Instance(_ context.Context, id wire.InstanceID) (wire.InstanceView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := b.m.Insts[id]
	if i == nil {
		return wire.InstanceView{}, b.noInstance(id)
	}
	return b.m.reads().view(i, time.Now()), nil
}

func (c *core) noInstance(id string) error {
	return wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance", "%s is not in cluster %s", id, c.name)
}

// Explain implements rest.Backend.
func (b backend) Explain(ctx context.Context, id wire.InstanceID) (wire.Explanation, error) {
	return b.explain(ctx, id)
}

// explain is the cluster's part of why an instance is where it is.
func (c *core) explain(ctx context.Context, id wire.InstanceID) (wire.Explanation, error) {
	out := wire.Explanation{Instance: id}
	c.mu.Lock()
	i, known := c.m.Insts[id]
	c.mu.Unlock()
	if !known {
		return out, wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance", "%s is not in cluster %s", id, c.name)
	}
	if h := displacement(i); h != nil {
		out.Notes = append(out.Notes, fmt.Sprintf("at %s it was %s", h.At.UTC().Format(time.RFC3339), h.Why))
	}
	e, err := c.store.Get(ctx, state.KeyWhy+id)
	if errors.Is(err, bus.ErrNotFound) {
		out.Notes = append(out.Notes, "cluster "+c.name+" has not decided about it yet")
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("looking up the decision about %s: %w", id, err)
	}
	var rec place.Record
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return out, fmt.Errorf("stored decision about %s: %w", id, err)
	}
	out.Decisions = append(out.Decisions, wire.Explained{Tier: c.m.Tier(), At: rec.At, Decision: rec.Decision})
	return out, nil
}

// Logs implements rest.Backend.
func (b backend) Logs(ctx context.Context, id wire.InstanceID, q wire.LogAsk) (wire.LogChunk, error) {
	return b.logs(ctx, q.Logs(id))
}

// Workers implements rest.Backend.
func (b backend) Workers(context.Context) ([]wire.WorkerView, error) { return b.workers(), nil }

// Entries implements rest.Backend.
func (b backend) Entries(ctx context.Context, cluster, worker string) ([]wire.EntryView, error) {
	if cluster != b.name {
		return nil, rest.ElsewhereAt("asking for a worker", cluster)
	}
	return b.entries(ctx, worker)
}

// status is a worker's in a word; see wire.WorkerView.
func (m *model) status(w *state.Worker) string {
	switch {
	case w.Suspect, !w.EverHeard && m.Waits.After(m.Started):
		return "suspect"
	case !w.EverHeard:
		return "never-seen"
	}
	return "ready"
}

func (c *core) workers() []wire.WorkerView {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	use := c.m.reads().usage()
	out := []wire.WorkerView{}
	for _, name := range records.SortedKeys(c.m.Workers) {
		w := c.m.Workers[name]
		v := wire.WorkerView{WorkerInfo: w.Info, Cluster: c.name, Status: c.m.status(w), AgeSeconds: now.Sub(w.Heard).Seconds(), Used: use[name].used, Instances: use[name].n, Cordon: w.Cordon, Revoked: w.Revoked}
		if w.Gateway.May() {
			v.GatewayGrant = w.Gateway
		}
		v.Network = netlease.Shown(c.m.Model, w.Info.Network)
		v.ClockSkewSeconds = w.Skew.Ahead().Seconds()
		if v.Status == "never-seen" {
			v.AgeSeconds = -1
		}
		out = append(out, v)
	}
	return out
}

// errLinkDown: the link to the root has ended, and no exchange has failed for that yet.
var errLinkDown = errors.New("the link to it is down")

// rootAway is why the root cannot be reached, nil if it can: what the last exchange says,
// unless the link has ended since. The mutex is held.
func (c *core) rootAway() error {
	if c.upErr != nil {
		return c.upErr
	}
	if up, _ := c.up.Connected(); !up {
		return errLinkDown
	}
	return nil
}

// Events implements rest.Backend.
func (b backend) Events(ctx context.Context, after uint64, wait time.Duration) (wire.EventPage, error) {
	return b.events.After(ctx, after, wait), nil
}

// Status implements rest.Backend.
func (b backend) Status(ctx context.Context) (wire.StatusView, error) {
	s := wire.StatusView{Role: "cluster", Name: b.name, Version: obs.Version(), Time: time.Now(), Workers: seenWorkers(ctx, b.name, b.workers()), Upstream: "connected"}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Started = b.m.Started
	s.Apps = seenApps(ctx, b.name, b.m.apps())
	for _, a := range s.Apps {
		s.Tally = s.Tally.Plus(a.Tally)
	}
	if access.From(ctx).Admin {
		s.Tally, s.SinceAway = b.m.Counted(), b.sinceAway()
		s.Network = netlease.View(b.m.Model)
	}
	local := b.m.localViews("")
	s.Local, s.Conflicts = seenLocal(ctx, local)
	s.UpstreamAt = b.upAt
	if err := b.rootAway(); err != nil {
		s.Upstream = "away: " + err.Error()
		problem := "the root does not answer; the site goes on by itself"
		switch {
		case b.refused != nil:
			s.Upstream = "refused: " + b.refused.Title
			problem = "the root refuses this cluster; the site goes on by itself: " + strings.ReplaceAll(b.refused.Error(), "\n", "")
		case b.server != nil && b.server.Refused():
			s.Upstream = "refused: the root does not know this cluster"
			problem = "the root does not let this cluster in: it was removed or revoked there, or the root was restored from a backup that is older than it. " +
				"The site goes on by itself. To join again: verge token create --cluster " + b.name + " at the root; then start this one with that token"
		}
		s.Problems = append(s.Problems, problem)
	}
	if p := recoveryProblem(b.m.recoveryView()); p != "" && access.From(ctx).Admin {
		s.Problems = append(s.Problems, p)
	}
	if access.From(ctx).Admin {
		s.Problems = append(s.Problems, records.Words(slices.Concat(b.m.Unread, b.hooks.Unread()))...)
	}
	s.Problems = append(s.Problems, wire.ConflictProblems(s.Conflicts)...)
	s.Problems = append(s.Problems, b.m.lostHosts()...)
	if p := netlease.WithoutIPv4(b.m.Model); p != "" {
		s.Problems = append(s.Problems, p)
	}
	for _, w := range s.Workers {
		if w.Status != "ready" {
			what := fmt.Sprintf("worker %s is %s", w.Name, w.Status)
			if !w.Revoked.IsZero() {
				what = fmt.Sprintf("the key of worker %s was revoked: it has to join again with a new token", w.Name)
			} else if w.Impaired != "" {
				what += ": " + w.Impaired
			}
			s.Problems = append(s.Problems, what)
			continue // what it said last is not news
		}
		if p := wire.SkewProblem("worker "+w.Cluster+"/"+w.Name, "its cluster", w.ClockSkewSeconds); p != "" {
			s.Problems = append(s.Problems, p)
		}
		for _, p := range w.Problems {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s/%s: %s", w.Cluster, w.Name, p))
		}
	}
	for _, a := range s.Apps {
		if !a.Holds {
			s.Problems = append(s.Problems, "application "+a.Name+": "+a.Message)
		}
	}
	if err := b.store.WriteError(); err != nil {
		s.Problems = append(s.Problems, "nothing can be stored: "+err.Error())
	}
	return s, nil
}

// CreateToken implements rest.Backend.
func (b backend) CreateToken(ctx context.Context, r wire.TokenRequest) (wire.TokenReply, error) {
	ttl := time.Duration(r.TTLSeconds) * time.Second
	now := b.clock.Now()
	if r.Gateway && r.Kind != "worker" {
		return wire.TokenReply{}, rest.NoGatewayToken(r.Kind)
	}
	if r.Uses > 1 && (r.Kind != "worker" || r.Gateway) {
		return wire.TokenReply{}, rest.OneUseToken()
	}
	switch r.Kind {
	case "worker":
		if r.Gateway {
			return b.ledger.NewGatewayJoin(ctx, b.name, b.apiAddrs(), ttl, now)
		}
		if r.Uses > 1 {
			return b.ledger.NewManyJoin(ctx, b.name, b.apiAddrs(), r.Uses, ttl, now)
		}
		return b.ledger.NewJoin(ctx, "worker", b.name, b.apiAddrs(), ttl, now)
	case "plugin":
		if !enroll.IsName(r.Plugin) {
			return wire.TokenReply{}, wire.Problemf(400, "bad-name", "give another: letters a-z, digits and -, at most 63", "this cannot be the name of a plugin", "%.80q", r.Plugin)
		}
		return b.ledger.NewPluginJoin(ctx, b.name, r.Plugin, b.apiAddrs(), ttl, now)
	case "api":
		return b.ledger.NewBearer(ctx, access.From(ctx).Name, ttl, now)
	}
	return wire.TokenReply{}, rest.Elsewhere("making a token for a "+r.Kind, "the root")
}

// Ready implements rest.Backend.
func (b backend) Ready() error { return b.store.WriteError() }
