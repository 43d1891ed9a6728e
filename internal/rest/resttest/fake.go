// Package resttest has what tests of the HTTP interface and of its clients
// share: a Backend made of plain data, and a certificate authority.
package resttest

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Fake is a Backend that answers from its fields. Set them before it serves,
// or in Hook.
type Fake struct {
	mu sync.Mutex

	ApplicationData
	InstanceData
	NodeData
	StorageData
	UserData
	MetricData
	HookData

	EventList []apiv1.Event
	State     apiv1.StatusView
	news      chan struct{} // closed and replaced by Change
	// NotReady is what Ready says.
	NotReady error
	// Hook runs before each operation, under the fake's lock: it may change
	// fields, panic, or return an error, which the operation then returns.
	Hook func(f *Fake, op string) error
}

var _ rest.Backend = (*Fake)(nil)

func (f *Fake) begin(op string) (func(), error) {
	f.mu.Lock()
	// A hook that panics must not leave the lock behind.
	locked := true
	defer func() {
		if locked {
			f.mu.Unlock()
		}
	}()
	if f.Hook != nil {
		if err := f.Hook(f, op); err != nil {
			return nil, err
		}
	}
	locked = false
	return f.mu.Unlock, nil
}

// do runs the operation op under the lock, after Hook.
func do[T any](f *Fake, op string, answer func() (T, error)) (T, error) {
	end, err := f.begin(op)
	if err != nil {
		var none T
		return none, err
	}
	defer end()
	return answer()
}

// run is do for what answers nothing.
func (f *Fake) run(op string, answer func() error) error {
	_, err := do(f, op, func() (struct{}, error) { return struct{}{}, answer() })
	return err
}

// give answers with a field.
func give[T any](f *Fake, op string, from *T) (T, error) {
	return do(f, op, func() (T, error) { return *from, nil })
}

func missing(what, name string) error {
	return wire.Problemf(http.StatusNotFound, "not-found", "list them with: verge get "+what+"s", "no such "+what, "%s",
		name)
}

// Apply records the descriptor.
func (f *Fake) Apply(ctx context.Context, source []byte, _ bool) (apiv1.ApplyResult, error) {
	return do(f, "apply", func() (apiv1.ApplyResult, error) {
		f.noteLocal(ctx)
		f.Applied = append(f.Applied, append([]byte(nil), source...))
		return f.ApplyAnswer, nil
	})
}

// Delete takes the application away at once.
func (f *Fake) Delete(ctx context.Context, app string) error {
	return f.run("delete", func() error {
		f.noteLocal(ctx)
		for i := range f.Apps {
			if f.Apps[i].Name == app {
				f.Apps[i].Deleting = true
				return nil
			}
		}
		return missing("application", app)
	})
}

// Applications are Apps.
func (f *Fake) Applications(context.Context) ([]apiv1.AppView, error) {
	return all(f, "applications", &f.Apps)
}

// Application is one of Apps.
func (f *Fake) Application(_ context.Context, app string) (apiv1.AppView, error) {
	return one(f, "application", &f.Apps, app, func(a apiv1.AppView) string { return a.Name })
}

// Instances are those of InstanceList that match.
func (f *Fake) Instances(_ context.Context, app, service string) ([]apiv1.InstanceView, error) {
	list, err := all(f, "instances", &f.InstanceList)
	var out []apiv1.InstanceView
	for _, i := range list {
		if (app == "" || i.App == app) && (service == "" || i.Service == service) {
			out = append(out, i)
		}
	}
	return out, err
}

// Instance is one of InstanceList.
func (f *Fake) Instance(_ context.Context, id wire.InstanceID) (apiv1.InstanceView, error) {
	return one(f, "instance", &f.InstanceList, id, func(i apiv1.InstanceView) string { return i.ID })
}

// Explain is one of Explanations.
func (f *Fake) Explain(_ context.Context, id wire.InstanceID) (apiv1.Explanation, error) {
	return do(f, "explain", func() (apiv1.Explanation, error) {
		e, ok := f.Explanations[id]
		if !ok {
			return e, missing("instance", id)
		}
		return e, nil
	})
}

// Logs pages LogText; a negative offset counts lines from the end. With wait
// it returns at once too.
func (f *Fake) Logs(_ context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	return do(f, "logs", func() (rpc.LogChunk, error) {
		text, ok := f.LogText[id]
		times := f.LogTimes[id]
		switch {
		case q.Former > len(f.FormerLogs[id]):
			return rpc.LogChunk{}, wire.Problemf(404, "no-former-log", "", "there is no such former log", "%s", id)
		case q.Former > 0:
			former := f.FormerLogs[id][q.Former-1]
			text, times, ok = former.Text, former.Times, true
		case q.Previous && f.PreviousLogs[id] == "":
			return rpc.LogChunk{}, wire.Problemf(404, "no-previous-run", "", "there is no previous run in this log",
				"%s", id)
		case q.Previous:
			text, times = f.PreviousLogs[id], nil
		}
		if !ok {
			return rpc.LogChunk{}, missing("instance", id)
		}
		offset := q.Offset
		if offset < 0 {
			offset = fromEnd(text, -offset)
		}
		if q.Since > 0 {
			offset = max(offset, f.LogSince[id])
		}
		offset = min(offset, int64(len(text)))
		data := text[offset:]
		data = data[:min(len(data), q.Max)]
		c := rpc.LogChunk{Data: []byte(data), Next: offset + int64(len(data)), Former: q.Former}
		if q.Former > 0 {
			c.Worker = "edge/former"
		}
		if q.Times {
			c.Times = times
		}
		return c, nil
	})
}

// fromEnd is where the last n lines of text begin.
func fromEnd(text string, n int64) int64 {
	for i := len(text) - 2; i >= 0; i-- {
		if text[i] == '\n' {
			if n--; n == 0 {
				return int64(i + 1)
			}
		}
	}
	return 0
}

// Clusters are ClusterList.
func (f *Fake) Clusters(context.Context) ([]apiv1.ClusterView, error) {
	return all(f, "clusters", &f.ClusterList)
}

// Workers are WorkerList.
func (f *Fake) Workers(context.Context) ([]rpc.WorkerView, error) {
	return all(f, "workers", &f.WorkerList)
}

// Plugins are PluginList.
func (f *Fake) Plugins(context.Context) ([]apiv1.PluginView, error) {
	return all(f, "plugins", &f.PluginList)
}

// Entries are one of EntryLists.
func (f *Fake) Entries(_ context.Context, cluster, worker string) ([]rpc.EntryView, error) {
	return do(f, "entries", func() ([]rpc.EntryView, error) {
		list, ok := f.EntryLists[cluster+"/"+worker]
		if !ok {
			return nil, missing("worker", cluster+"/"+worker)
		}
		return list, nil
	})
}

// Events are those of EventList after a sequence number; it does not wait.
func (f *Fake) Events(_ context.Context, after uint64, _ time.Duration) (apiv1.EventPage, error) {
	return do(f, "events", func() (apiv1.EventPage, error) {
		page := apiv1.EventPage{After: after}
		for _, e := range f.EventList {
			if e.Seq > after {
				page.Events = append(page.Events, e)
				page.After = e.Seq
			}
		}
		return page, nil
	})
}

// Status is State; its problems are an administrator's to see.
func (f *Fake) Status(ctx context.Context) (apiv1.StatusView, error) {
	return do(f, "status", func() (apiv1.StatusView, error) {
		state := f.State
		if !access.From(ctx).Admin {
			state.Problems = nil
		}
		return state, nil
	})
}

// CreateToken records the request and answers TokenAnswer.
func (f *Fake) CreateToken(_ context.Context, r apiv1.TokenRequest) (apiv1.TokenReply, error) {
	return do(f, "token", func() (apiv1.TokenReply, error) {
		f.TokenRequests = append(f.TokenRequests, r)
		return f.TokenAnswer, nil
	})
}

// Join answers JoinAnswer.
func (f *Fake) Join(context.Context, rpc.JoinRequest) (rpc.JoinReply, error) {
	return give(f, "join", &f.JoinAnswer)
}

// Authenticate accepts Bearer and the tokens of People.
func (f *Fake) Authenticate(_ context.Context, token string) (rest.Principal, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.People[token]; ok {
		return c, nil
	}
	if f.Bearer == "" || token != f.Bearer {
		return rest.Principal{}, errors.New("unknown token")
	}
	return rest.Principal{Who: access.Who{Name: "token", Admin: true}}, nil
}

// Locate looks at Apps and InstanceList.
func (f *Fake) Locate(kind access.Kind, name string) (access.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind {
	case access.Application:
		for _, a := range f.Apps {
			if a.Name == name {
				return access.Object{Namespace: a.Namespace}, true
			}
		}
	case access.Instance:
		for _, i := range f.InstanceList {
			if i.ID == name {
				return access.Object{Namespace: i.Namespace, Cluster: i.Cluster}, true
			}
		}
	}
	return access.Object{}, false
}

// Ready is NotReady.
func (f *Fake) Ready() error { return f.NotReady }

func all[T any](f *Fake, op string, list *[]T) ([]T, error) {
	end, err := f.begin(op)
	if err != nil {
		return nil, err
	}
	defer end()
	return append([]T(nil), *list...), nil
}

func one[T any](f *Fake, kind string, list *[]T, name string, nameOf func(T) string) (T, error) {
	var zero T
	end, err := f.begin(kind)
	if err != nil {
		return zero, err
	}
	defer end()
	for _, v := range *list {
		if nameOf(v) == name {
			return v, nil
		}
	}
	return zero, missing(kind, name)
}
