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
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Fake is a Backend that answers from its fields. Set them before it serves,
// or in Hook.
type Fake struct {
	mu sync.Mutex

	Apps         []wire.AppView
	InstanceList []wire.InstanceView
	ClusterList  []wire.ClusterView
	WorkerList   []wire.WorkerView
	// VolumeList are the named volumes of all workers.
	VolumeList []wire.VolumeView
	// SnapshotList are the snapshots of the cluster.
	SnapshotList []wire.SnapshotView
	// Figures of workers by "cluster/worker".
	Figures map[string]string
	// EntryLists by "cluster/worker".
	EntryLists   map[string][]wire.EntryView
	EventList    []wire.Event
	State        wire.StatusView
	Spaces       []wire.NamespaceView
	PluginList   []wire.PluginView
	UserList     []wire.UserView
	TokenList    []wire.TokenView
	AuditEntries []wire.AuditEntry
	SecretList   []wire.SecretView
	// HookList are the hooks, HookSecret the secret that was set last, HookAnswer what a
	// test says.
	HookList     []wire.HookView
	HookSecret   string
	HookAnswer   wire.HookTested
	ObjectList   []wire.ObjectView
	Explanations map[string]wire.Explanation
	LogText      map[string]string
	// LogTimes are when LogText was written, FormerLogs where an instance was before, the
	// latest first, and PreviousLogs what the run before the present one wrote.
	LogTimes     map[wire.InstanceID][]wire.LogTime
	FormerLogs   map[wire.InstanceID][]FakeLog
	PreviousLogs map[wire.InstanceID]string
	// LogSince is where a log begins for who asks for what is new.
	LogSince    map[string]int64
	ApplyAnswer wire.ApplyResult
	PlanAnswer  wire.Plan
	TokenAnswer wire.TokenReply
	JoinAnswer  wire.JoinReply
	// Drain is how far drains are.
	Drain wire.DrainView
	// RestartAnswer is what Restart says.
	RestartAnswer wire.RestartResult
	// Jobs are what was asked for of jobs, JobAnswer what Job says.
	Jobs      []wire.JobRequest
	JobAnswer wire.JobResult
	// Bearer is the valid bearer token of an administrator, "" none.
	Bearer string
	// People are those who may ask, by their bearer token.
	People map[string]rest.Principal
	// What is measured.
	InstanceTops []wire.InstanceTop
	WorkerTops   []wire.WorkerTopView
	Routes       []wire.RouteReport
	Scales       []wire.ScaleReport
	Nets         []wire.NetReport
	ClusterTops  []wire.ClusterTop

	news chan struct{} // closed and replaced by Change
	// ExecStep answers steps of sessions; nil knows none.
	ExecStep func(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error)
	// NoRecord is why nothing can be written to the audit log.
	NoRecord error
	// NotReady is what Ready says.
	NotReady error

	// Hook runs before each operation, under the fake's lock: it may change
	// fields, panic, or return an error, which the operation then returns.
	Hook func(f *Fake, op string) error

	// Recovering is what Recovery says.
	Recovering wire.RecoveryView
	// Archive is what Backup writes.
	Archive []byte

	// Local are the local changes and conflicts; MeantLocal says whether the last
	// change that was asked for was meant for one site.
	Local      wire.LocalView
	MeantLocal bool

	// Planned are the descriptors that Plan got.
	Planned [][]byte

	// Applied are the descriptors that Apply got (dry runs too),
	// TokenRequests what CreateToken did.
	Applied       [][]byte
	TokenRequests []wire.TokenRequest
	// SecretValues that were set, by "namespace.name".
	SecretValues map[string]string
	// ObjectContents are those of ObjectList, by "namespace/name".
	ObjectContents map[string][]byte
	// Restarts are the requests that Restart got.
	Restarts []wire.RestartRequest
	// CAState is what CA says, Rotations what RotateCA got.
	CAState   wire.CAView
	Rotations []wire.CARotateRequest
	// Renewals are the requests to Renew.
	Renewals []wire.RenewRequest
	// Left are the workers that left.
	Left []string
	// RolloutAnswer is what Rollout says, RevisionList the history, Rollouts are the
	// requests to change one.
	RolloutAnswer wire.RolloutView
	RevisionList  []wire.AppRevision
	Rollouts      []wire.RolloutRequest
	// UpgradeAnswer is what Upgrade says, Upgrades and UpgradeActions what was asked for.
	UpgradeAnswer  wire.UpgradeView
	Upgrades       []wire.UpgradeRequest
	UpgradeActions []string
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
	return wire.Problemf(http.StatusNotFound, "not-found", "list what there is with: verge get "+what+"s", "no such "+what, "%s", name)
}

// Apply records the descriptor.
func (f *Fake) Apply(ctx context.Context, source []byte, _ bool) (wire.ApplyResult, error) {
	return do(f, "apply", func() (wire.ApplyResult, error) {
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
func (f *Fake) Applications(context.Context) ([]wire.AppView, error) {
	return all(f, "applications", &f.Apps)
}

// Application is one of Apps.
func (f *Fake) Application(_ context.Context, app string) (wire.AppView, error) {
	return one(f, "application", &f.Apps, app, func(a wire.AppView) string { return a.Name })
}

// Instances are those of InstanceList that match.
func (f *Fake) Instances(_ context.Context, app, service string) ([]wire.InstanceView, error) {
	list, err := all(f, "instances", &f.InstanceList)
	var out []wire.InstanceView
	for _, i := range list {
		if (app == "" || i.App == app) && (service == "" || i.Service == service) {
			out = append(out, i)
		}
	}
	return out, err
}

// Instance is one of InstanceList.
func (f *Fake) Instance(_ context.Context, id wire.InstanceID) (wire.InstanceView, error) {
	return one(f, "instance", &f.InstanceList, id, func(i wire.InstanceView) string { return i.ID })
}

// Explain is one of Explanations.
func (f *Fake) Explain(_ context.Context, id wire.InstanceID) (wire.Explanation, error) {
	return do(f, "explain", func() (wire.Explanation, error) {
		e, ok := f.Explanations[id]
		if !ok {
			return e, missing("instance", id)
		}
		return e, nil
	})
}

// Logs pages LogText; a negative offset counts lines from the end. With wait
// it returns at once too.
func (f *Fake) Logs(_ context.Context, id wire.InstanceID, q wire.LogAsk) (wire.LogChunk, error) {
	return do(f, "logs", func() (wire.LogChunk, error) {
		text, ok := f.LogText[id]
		times := f.LogTimes[id]
		switch {
		case q.Former > len(f.FormerLogs[id]):
			return wire.LogChunk{}, wire.Problemf(404, "no-former-log", "", "there is no such former log", "%s", id)
		case q.Former > 0:
			former := f.FormerLogs[id][q.Former-1]
			text, times, ok = former.Text, former.Times, true
		case q.Previous && f.PreviousLogs[id] == "":
			return wire.LogChunk{}, wire.Problemf(404, "no-previous-run", "", "there is no previous run in this log", "%s", id)
		case q.Previous:
			text, times = f.PreviousLogs[id], nil
		}
		if !ok {
			return wire.LogChunk{}, missing("instance", id)
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
		c := wire.LogChunk{Data: []byte(data), Next: offset + int64(len(data)), Former: q.Former}
		if q.Former > 0 {
			c.Worker = "edge/former"
		}
		if q.Times {
			c.Times = times
		}
		return c, nil
	})
}

// FakeLog is a log on a worker where an instance was.
type FakeLog struct {
	Text  string
	Times []wire.LogTime
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
func (f *Fake) Clusters(context.Context) ([]wire.ClusterView, error) {
	return all(f, "clusters", &f.ClusterList)
}

// Workers are WorkerList.
func (f *Fake) Workers(context.Context) ([]wire.WorkerView, error) {
	return all(f, "workers", &f.WorkerList)
}

// Plugins are PluginList.
func (f *Fake) Plugins(context.Context) ([]wire.PluginView, error) {
	return all(f, "plugins", &f.PluginList)
}

// Entries are one of EntryLists.
func (f *Fake) Entries(_ context.Context, cluster, worker string) ([]wire.EntryView, error) {
	return do(f, "entries", func() ([]wire.EntryView, error) {
		list, ok := f.EntryLists[cluster+"/"+worker]
		if !ok {
			return nil, missing("worker", cluster+"/"+worker)
		}
		return list, nil
	})
}

// Events are those of EventList after a sequence number; it does not wait.
func (f *Fake) Events(_ context.Context, after uint64, _ time.Duration) (wire.EventPage, error) {
	return do(f, "events", func() (wire.EventPage, error) {
		page := wire.EventPage{After: after}
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
func (f *Fake) Status(ctx context.Context) (wire.StatusView, error) {
	return do(f, "status", func() (wire.StatusView, error) {
		state := f.State
		if !access.From(ctx).Admin {
			state.Problems = nil
		}
		return state, nil
	})
}

// CreateToken records the request and answers TokenAnswer.
func (f *Fake) CreateToken(_ context.Context, r wire.TokenRequest) (wire.TokenReply, error) {
	return do(f, "token", func() (wire.TokenReply, error) {
		f.TokenRequests = append(f.TokenRequests, r)
		return f.TokenAnswer, nil
	})
}

// Join answers JoinAnswer.
func (f *Fake) Join(context.Context, wire.JoinRequest) (wire.JoinReply, error) {
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
