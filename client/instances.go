package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/transport"
)

// Instances are what runs. An instance is named application.service.ordinal.
type Instances struct{ group }

// List is those of one application and service where these are not "".
func (i Instances) List(ctx context.Context, app, service string) ([]Instance, error) {
	return callList(ctx, i.group, rest.ListInstances, rest.InstancesIn{App: app, Service: service})
}

// Get is one of them.
func (i Instances) Get(ctx context.Context, id string) (Instance, error) {
	return call(ctx, i.group, rest.GetInstance, rest.InstanceIn{ID: id})
}

// Explain says why an instance is where it is.
func (i Instances) Explain(ctx context.Context, id string) (Explanation, error) {
	return call(ctx, i.group, rest.ExplainInstance, rest.InstanceIn{ID: id})
}

// Logs reads a part of the log of an instance. It waits for something new for at most
// MaxWait.
func (i Instances) Logs(ctx context.Context, id string, ask LogRequest) (LogChunk, error) {
	in := rest.LogsIn{
		ID: id, Offset: ask.Offset, Max: ask.Max, Wait: waitText(ask.Wait), Since: waitText(ask.Since),
		Times: ask.Times, Previous: ask.Previous, Former: ask.Former,
	}
	return transport.Call(ctx, i.conn, rest.ReadLogs, in, ask.Wait)
}

// FollowLogs reads a log from where the request says, and goes on with what is written until
// the loop or ctx ends. An error is the last.
func (i Instances) FollowLogs(ctx context.Context, id string, ask LogRequest) iter.Seq2[LogChunk, error] {
	return func(yield func(LogChunk, error) bool) {
		ask.Wait = MaxWait
		for {
			chunk, err := i.Logs(ctx, id, ask)
			if err != nil {
				yield(chunk, err)
				return
			}
			if len(chunk.Data) > 0 && !yield(chunk, nil) {
				return
			}
			ask.Offset, ask.Since = chunk.Next, 0
		}
	}
}

// Exec are sessions with instances: programs beside them, connections to their ports, copies
// of files. A session goes on as long as somebody reads from it. Its key, under which it is
// begun once however often that is asked for, is made up where none is given.
type Exec struct{ group }

// Start runs a program beside an instance.
func (e Exec) Start(ctx context.Context, id string, start ExecStart) (session string, err error) {
	start.Key = cmp.Or(start.Key, rand.Text())
	v, err := call(ctx, e.group, rest.StartExec, rest.ExecIn{ID: id, Body: start})
	return v.Session, err
}

// Forward begins a session that carries connections to ports of an instance.
func (e Exec) Forward(ctx context.Context, id string, start ForwardStart) (session string, err error) {
	start.Key = cmp.Or(start.Key, rand.Text())
	v, err := call(ctx, e.group, rest.StartForward, rest.ForwardIn{ID: id, Body: start})
	return v.Session, err
}

// Copy begins a session that carries a file or directory from or to an instance.
func (e Exec) Copy(ctx context.Context, id string, start CopyStart) (session string, err error) {
	start.Key = cmp.Or(start.Key, rand.Text())
	v, err := call(ctx, e.group, rest.StartCopy, rest.CopyIn{ID: id, Body: start})
	return v.Session, err
}

// Send gives a session input; taken is how much of its whole input has been taken.
func (e Exec) Send(ctx context.Context, session string, in ExecInput) (taken int64, err error) {
	v, err := call(ctx, e.group, rest.SendExecInput, rest.SessionInputIn{Session: session, Body: in})
	return v.Taken, err
}

// execLate is how much longer than asked for an answer may take: somebody sits
// there, and asking again costs nothing.
const execLate = 10 * time.Second

// Read reads what a session has written from two offsets on; what is before them is
// forgotten. wait is at most MaxWait.
func (e Exec) Read(ctx context.Context, session string, stdout, stderr int64, wait time.Duration) (ExecOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+execLate)
	defer cancel()
	in := rest.SessionOutputIn{Session: session, Stdout: stdout, Stderr: stderr, Wait: waitText(wait)}
	return transport.Call(ctx, e.conn, rest.ReadExecOutput, in, wait)
}

// End ends a session with its program.
func (e Exec) End(ctx context.Context, session string) error {
	return callNone(ctx, e.group, rest.EndExec, rest.SessionIn{Session: session})
}

// Invoke sends a request to the service of an instance.
func (e Exec) Invoke(ctx context.Context, id string, in Invocation) (InvocationResult, error) {
	return transport.Call(ctx, e.conn, rest.Invoke, rest.InvokeIn{ID: id, Body: in}, time.Duration(in.Hold())*time.Millisecond)
}
