package root

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Exec implements rest.Backend: a step of a session goes to the cluster that it
// is in, which its id says.
func (b backend) Exec(ctx context.Context, q wire.ExecAsk) (a wire.ExecAnswer, err error) {
	const title = "it cannot be reached now"
	q.Owner = rest.Caller(ctx)
	if q.Do == wire.ExecDoProfile && q.Profile != nil {
		a.Profile, err = b.profile(ctx, q)
		return a, err
	}
	var cluster string
	if q.Do == wire.ExecDoStart || q.Do == wire.ExecDoInvoke {
		v, err := b.find(q.Instance)
		if err != nil {
			return a, err
		}
		if cluster = v.Cluster; cluster == "" {
			return a, wire.Problemf(409, "not-placed", "verge describe instance/"+q.Instance, "nothing can be asked of it yet", "%s is %s: %s", q.Instance, v.State, v.Reason)
		}
	} else {
		at, err := wire.ParseExecID(q.Session)
		if err != nil {
			return a, wire.Problemf(404, wire.CodeNoSession, "start another", "there is no such session", "%v", err)
		}
		cluster = at.Cluster
	}
	if err := b.details(cluster, title); err != nil {
		return a, err
	}
	err = b.ask(ctx, cluster, wire.Ask{What: "exec", Exec: &q}, &a)
	return a, unanswered(err, cluster, "session-unavailable", title)
}

// details says whether a cluster lets its inside be asked for: nil, or what to
// answer, under a title.
func (c *core) details(name, title string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.m.clusters[name]
	switch {
	case cl == nil:
		return wire.Problemf(404, "no-such-cluster", "verge get clusters", "there is no such cluster", "%s is not known", name)
	case cl.agg == nil:
		return wire.Problemf(503, "cluster-away", "try again when it is back: verge get clusters", title, "cluster %s has not been heard of since the root started", name)
	case !cl.agg.Details:
		return wire.Problemf(403, "kept-private", rest.ContextOf(name)+"; or its operator starts it with --share-details", title, "cluster %s keeps its details to itself", name)
	}
	return nil
}

// Changes implements rest.Backend.
func (b backend) Changes() <-chan struct{} { return b.news.Listen() }
