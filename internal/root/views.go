package root

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// appView is an application and how far it is.
func (m *model) appView(app *wire.Application) wire.AppView {
	v := wire.AppView{Name: app.Name, Namespace: wire.NamespaceOf(app.Spec), Revision: app.Revision, Number: app.Number, Created: app.Created, Applied: app.Applied, Deleting: !app.Deleting.IsZero()}
	for _, name := range app.Spec.ServiceNames() {
		s := m.serviceView(app, name)
		v.Services = append(v.Services, s)
	}
	v.Message = wire.Incomplete(v.Services)
	v.Holds = v.Message == ""
	local := m.localViews(app.Name)
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	v.Tally = m.tally(app)
	if v.Deleting {
		v.Holds = false
		v.Message = "still ending: " + wire.Count(len(m.reads().instances(app.Name)), "instance")
	}
	return v
}

// unclaimed is said of a service that is not started, see wire.Application.
const unclaimed = "not started: no cluster holds anything of it since the root recovered, so it was probably deleted; apply it again, or delete it"

func (m *model) serviceView(app *wire.Application, name string) wire.ServiceView {
	svc := app.Spec.Services[name]
	v := wire.ServiceView{Name: name, Wanted: svc.Replicas.Min}
	least := v.Wanted // that must be there for the service to hold
	if svc.Replicas.Elastic() {
		v.Most, least = svc.Replicas.Max, max(least, 1)
	}
	for _, p := range svc.Ports {
		if p.Ingress != nil && p.Ingress.Host != "" {
			v.Hosts = append(v.Hosts, p.Ingress.Host)
		}
	}
	if slices.Contains(app.Unclaimed, name) {
		v.Message = unclaimed
		return v
	}
	t := m.reads()
	reason, holding, other := "", 0, 0 // other: those that are ready, and not as applied
	all := t.of(app.Name, name)
	off := t.misfits(app.Name, name, svc, all)
	for _, i := range all {
		if i.Draining {
			continue
		}
		if m.spare(i, svc) {
			if i.Cluster == "" {
				reason = cmp.Or(reason, notYet(i, app.Revision))
			}
			continue
		}
		cur := m.merged(i)
		if v.Failed == "" {
			v.Failed = m.failedFor(i, app)
		}
		if cur.Worker != "" || cur.State == wire.Running || cur.State == wire.WorkerScheduled {
			v.Placed++
		}
		if i.Cluster != "" && !slices.Contains(v.Clusters, i.Cluster) {
			v.Clusters = append(v.Clusters, i.Cluster)
		}
		switch {
		case cur.State == wire.Running && !cur.Unreachable:
			v.Running++
			if cur.Ready {
				v.Ready++
			}
			if cur.Ready && (off[i.ID] != "" || cur.Revision != app.Revision) {
				other++
			}
			if why := off[i.ID]; why != "" {
				reason = cmp.Or(reason, i.ID+" moves: cluster "+i.Cluster+" "+why)
			} else if cur.Ready && cur.Revision == app.Revision {
				holding++
			} else if reason == "" {
				reason = notYet(&cur, app.Revision)
			}
		case cur.State == wire.WorkerScheduled && cur.Asleep && !i.Unreachable:
			v.Asleep++
			holding++
		case cur.State == wire.Terminated && cur.Revision == app.Revision:
			holding++ // completed, and not to be run again
		case reason == "":
			reason = notYet(&cur, app.Revision)
		}
	}
	if svc.Job != nil {
		job, message := m.jobView(app, name, all)
		v.Job, v.Message = &job, message
		if v.Failed = ""; svc.Cron == nil && job.Outcome == wire.JobFailed {
			v.Failed = message
		}
		return v
	}
	if holding >= least {
		v.Failed = ""
	}
	if holding >= least && m.rolling(app.Name+"."+name) {
		v.Rollout = wire.RolloutRolling // to its end: those that stood in for others go
	}
	if holding < least {
		v.Message = wire.HowReady(holding+other, holding, least)
		if reason != "" {
			v.Message += "; " + reason
		}
		if r := m.rollout(app, name); r.Phase != wire.RolloutDone {
			v.Rollout = r.Phase
			if r.Phase != wire.RolloutRolling || r.Why != "" {
				v.Message += "; rollout " + r.Phase + ": " + r.Why
			}
		}
		if local := m.localOf(app.Name, name); local != "" {
			v.Message += "; it was " + local
		}
	}
	return v
}

// failedFor is why an instance has failed as applied, "" where it has not: as its cluster
// says it, or said it when it gave the instance back.
func (m *model) failedFor(i *wire.Instance, app *wire.Application) string {
	why := ""
	if c := m.clusters[i.Cluster]; c != nil && c.seen[i.ID] != nil {
		if rep := c.seen[i.ID]; rep.Revision == app.Revision {
			why = rep.Failed
		}
	} else if n := len(i.History); i.Cluster == "" && n > 0 && i.History[n-1].At.After(app.Applied) {
		_, why, _ = strings.Cut(i.History[n-1].Why, place.FailedBecause)
	}
	if why == "" {
		return ""
	}
	return i.ID + ": " + why
}

// spare is the right to run an instance of a service whose requests decide how many
// run, of which nothing is there.
func (m *model) spare(i *wire.Instance, svc *api.Service) bool {
	if svc == nil || !svc.Replicas.Elastic() || i.Draining && i.Cluster != "" {
		return false
	}
	c := m.clusters[i.Cluster]
	return c == nil || c.seen[i.ID] == nil
}

// right says whether an instance is no more than the right of a cluster to run one more
// of a service: of those that are not promised, and of which nothing is there. Changes
// of their number are told, not each of them.
func (m *model) right(i *wire.Instance) bool {
	app := m.apps[i.App]
	if app == nil {
		return false
	}
	svc := app.Spec.Services[i.Service]
	if svc == nil || !svc.Replicas.Elastic() || i.Ordinal < max(svc.Replicas.Min, 1) {
		return false
	}
	c := m.clusters[i.Cluster]
	return c == nil || c.seen[i.ID] == nil
}

// hidden says whether an instance is a right that nobody needs to see: others of its
// service are there.
func (m *model) hidden(i *wire.Instance) bool {
	app := m.apps[i.App]
	return app != nil && m.spare(i, app.Spec.Services[i.Service]) && m.placedSome(i)
}

// placedSome says whether a cluster has any of the instances of i's service.
func (m *model) placedSome(i *wire.Instance) bool {
	return slices.ContainsFunc(m.byService()[i.App+"."+i.Service], func(id wire.InstanceID) bool {
		o := m.insts[id]
		c := m.clusters[o.Cluster]
		return c != nil && c.seen[id] != nil
	})
}

// notYet says in words why an instance does not count.
func notYet(i *wire.Instance, revision uint64) string {
	s := i.ID + " is " + string(i.State)
	switch {
	case i.Unreachable:
		if s = i.ID + " is unreachable"; i.Reason == "" {
			s += ": its worker is not heard of"
		}
	case i.State == wire.Running && i.Revision >= wire.LocalRevisions:
		s = i.ID + " runs what was changed at its site"
	case i.State == wire.Running && i.Revision != revision:
		s = fmt.Sprintf("%s still runs revision %d", i.ID, i.Revision)
	case i.State == wire.Running:
		s = i.ID + " is not ready"
	}
	if i.Reason != "" {
		s += ": " + i.Reason
	}
	return s
}

// merged is an instance as its cluster reports it, with the root's part of its
// history before that; or as the root knows it, where no cluster has it yet.
func (m *model) merged(i *wire.Instance) wire.Instance {
	out := *i
	c := m.clusters[i.Cluster]
	if c == nil || c.seen[i.ID] == nil {
		if app := m.apps[i.App]; i.Job != nil && app != nil && app.Spec.Services[i.Service] != nil && ruleOf(app, i.Service).done(i) {
			out.State, out.Since, out.Cause, out.Reason = wire.Terminated, i.Job.Completed, wire.CauseCompleted, "completed"
		}
		return out
	}
	rep := c.seen[i.ID]
	out = rep.Instance
	// The cluster's part begins with what the root's ends with.
	out.History = append(slices.Clone(i.History), rep.History[min(1, len(rep.History)):]...)
	out.Replaces = i.Replaces
	out.AllRestarts = rep.Again() + i.AllRestarts // with those in clusters that gave it back
	out.Unreachable = rep.Unreachable || i.Unreachable
	if i.Unreachable && out.Reason == "" {
		out.Reason = i.Reason
	}
	out.Draining = rep.Draining || i.Draining
	return out
}

// view is an instance with the age of the report that it comes from.
func (m *model) view(i *wire.Instance, now time.Time) wire.InstanceView {
	v := wire.InstanceView{Instance: m.merged(i), Namespace: m.namespace(i.App), Source: tier}
	if c := m.clusters[i.Cluster]; c != nil && c.seen[i.ID] != nil {
		v.Source = "cluster/" + c.Name
		v.AgeSeconds = now.Sub(c.heard).Seconds()
		if app := m.apps[i.App]; app != nil {
			v.Addrs = lease.Ours(m.net.leases[c.Name], app.Number, c.seen[i.ID].Addrs)
		}
	}
	return v
}

func (m *model) clusterView(c *cluster, now time.Time) wire.ClusterView {
	v := wire.ClusterView{Name: c.Name, Areas: c.Areas, Connected: c.everHeard && !c.suspect, AgeSeconds: -1, Joined: c.Joined, Version: c.Version, Aggregate: c.agg, Cordon: c.Cordon, Revoked: c.Revoked}
	v.ClockSkewSeconds = c.skew.Ahead().Seconds()
	if c.everHeard {
		v.AgeSeconds = now.Sub(c.heard).Seconds()
	}
	local := c.localViews("")
	v.Local, v.Conflicts = local.Changes, local.Conflicts
	v.Tally, v.SinceAway = c.counted(), c.sinceAway()
	v.Network = m.clusterNetwork(c)
	return v
}

func (c *core) clusters() []wire.ClusterView {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	out := []wire.ClusterView{}
	for _, name := range records.SortedKeys(c.m.clusters) {
		out = append(out, c.m.clusterView(c.m.clusters[name], now))
	}
	return out
}

func (c *core) apps() []wire.AppView {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := []wire.AppView{}
	for _, name := range records.SortedKeys(c.m.apps) {
		out = append(out, c.m.appView(c.m.apps[name]))
	}
	return out
}

// status of the root and of all that it knows of.
func (c *core) status(ctx context.Context) wire.StatusView {
	s := wire.StatusView{Role: "root", Name: "root", Version: obs.Version(), Started: c.started, Time: time.Now(), Clusters: seen(ctx, c.clusters())}
	s.Apps = access.Visible(access.From(ctx), c.apps(), func(a wire.AppView) access.Object {
		return access.Object{Kind: access.Application, Name: a.Name, Namespace: a.Namespace}
	})
	s.Local, s.Conflicts = c.seenLocal(ctx)
	for _, a := range s.Apps {
		s.Tally = s.Tally.Plus(a.Tally)
	}
	if access.From(ctx).Admin {
		c.mu.Lock()
		s.Network = c.m.networkView()
		s.Tally = c.m.counted()
		s.Problems = append(s.Problems, records.Words(slices.Concat(c.m.unread, c.hooks.Unread()))...)
		s.Problems = append(s.Problems, recoveryProblems(c.m.recoveryView(time.Now()))...)
		c.mu.Unlock()
	}
	s.Problems = append(s.Problems, wire.ConflictProblems(s.Conflicts)...)
	s.Problems = append(s.Problems, c.quotaProblems(ctx)...)
	s.Problems = append(s.Problems, c.networkProblems()...)
	workers, missing := c.workers(ctx, statusPatience)
	s.Workers = workers
	for _, cl := range s.Clusters {
		switch {
		case !cl.Revoked.IsZero():
			s.Problems = append(s.Problems, "the key of cluster "+cl.Name+" was revoked: it has to join again with a new token")
		case cl.AgeSeconds < 0:
			s.Problems = append(s.Problems, "cluster "+cl.Name+" has not been heard of since the root started")
		case !cl.Connected:
			s.Problems = append(s.Problems, fmt.Sprintf("cluster %s is away, last heard of %s ago", cl.Name, (time.Duration(cl.AgeSeconds)*time.Second).String()))
		}
	}
	for _, cl := range s.Clusters {
		if p := wire.SkewProblem("cluster "+cl.Name, "the root", cl.ClockSkewSeconds); p != "" && cl.Connected {
			s.Problems = append(s.Problems, p)
		}
	}
	for _, w := range workers {
		if w.Status != "ready" {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s of cluster %s is %s", w.Name, w.Cluster, w.Status))
			continue // what it said last is not news
		}
		if p := wire.SkewProblem("worker "+w.Cluster+"/"+w.Name, "its cluster", w.ClockSkewSeconds); p != "" {
			s.Problems = append(s.Problems, p)
		}
		for _, p := range w.Problems {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s/%s: %s", w.Cluster, w.Name, p))
		}
	}
	s.Problems = append(s.Problems, missing...)
	for _, a := range s.Apps {
		if !a.Holds {
			s.Problems = append(s.Problems, "application "+a.Name+": "+a.Message)
		}
	}
	if err := c.store.WriteError(); err != nil {
		s.Problems = append(s.Problems, "nothing can be stored: "+err.Error())
	}
	return s
}

// askTimeout bounds a question to a cluster, beyond what it may be held.
const askTimeout = 3 * time.Second

func (c *core) ask(ctx context.Context, cluster string, q wire.Ask, out any) error {
	conn, err := c.link(cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.Hold()+askTimeout)
	defer cancel()
	err = exchange.AskPeer(ctx, conn, exchange.ClusterSubjects(), q, out)
	if silent(err) {
		return &silentCluster{cluster, err}
	}
	return err
}

// silent says of an error that nobody has answered.
func silent(err error) bool {
	return errors.Is(err, bus.ErrNoResponder) || errors.Is(err, bus.ErrDisconnected) || errors.Is(err, context.DeadlineExceeded)
}

// silentCluster is the error of a question that nobody has answered, in words for people:
// those of the bus name its subjects.
type silentCluster struct {
	cluster string
	err     error
}

func (e *silentCluster) Error() string { return "cluster " + e.cluster + " does not answer" }
func (e *silentCluster) Unwrap() error { return e.err }

// unanswered turns what came of a question to a cluster into what is answered
// here: a problem of the cluster's goes on as it is.
func unanswered(err error, cluster, code, title string) error {
	var p *wire.Problem
	switch {
	case err == nil, errors.As(err, &p):
		return err
	case silent(err):
		return wire.Problemf(503, "cluster-away", "try again when it is back: verge get clusters", title, "cluster %s does not answer", cluster)
	}
	return wire.Problemf(502, code, "try again: verge status shows what is away", title, "%s", strings.TrimSpace(err.Error()))
}

// find returns an instance.
func (c *core) find(id wire.InstanceID) (v wire.InstanceView, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.m.insts[id]
	if v, ok := c.m.extraView(id, time.Now()); i == nil && ok {
		return v, nil
	}
	if i == nil {
		var near []string
		for other := range c.m.insts {
			if strings.HasPrefix(other, id) {
				near = append(near, other)
			}
		}
		slices.Sort(near)
		detail := id + " is not known"
		if len(near) > 0 {
			detail += "; there are " + strings.Join(near[:min(len(near), 5)], ", ")
		}
		return v, wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance", "%s", detail)
	}
	return c.m.view(i, time.Now()), nil
}
