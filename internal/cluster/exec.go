package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Exec implements rest.Backend.
func (b backend) Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	q.Owner = "site/" + rest.Caller(ctx)
	return b.exec(ctx, q)
}

// exec passes a step of a session on to the worker that it is on. A session's id
// says which, so that nothing is remembered here.
func (c *core) exec(ctx context.Context, q wire.ExecAsk) (a wire.ExecAnswer, err error) {
	if q.Do == wire.ExecDoProfile && q.Profile != nil {
		a.Profile, err = c.profile(ctx, q.Profile, q.Owner)
		return a, err
	}
	at := wire.ExecID{Cluster: c.name, Instance: q.Instance}
	if q.Do == wire.ExecDoStart || q.Do == wire.ExecDoInvoke {
		at.Worker, err = c.workerOf(q.Instance, "nothing can be asked of it yet")
	} else if at, err = wire.ParseExecID(q.Session); err != nil || at.Cluster != c.name || !c.hasWorker(at.Worker) {
		err = wire.Problemf(404, "no-such-session", "start another", "there is no such session", "it is not one of cluster %s", c.name)
	}
	if err != nil {
		return a, err
	}
	q.Session, q.Instance = at.Session, at.Instance
	if err := c.askWorker(ctx, at.Worker, wire.Ask{What: "exec", Exec: &q}, "it cannot be reached now", &a); err != nil {
		return a, err
	}
	if a.Session != "" {
		at.Session = a.Session
		a.Session = at.String()
	}
	return a, nil
}

func (c *core) hasWorker(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m.Workers[name] != nil
}

// Changes implements rest.Backend.
func (b backend) Changes() <-chan struct{} { return b.news.Listen() }
