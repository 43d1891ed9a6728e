package rest

import (
	"context"
	"strings"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Instances is the part of a backend that is about what runs.
type Instances interface {
	// Instances, of one application and service where these are not "".
	Instances(ctx context.Context, app, service string) ([]apiv1.InstanceView, error)
	Instance(ctx context.Context, id wire.InstanceID) (apiv1.InstanceView, error)
	Explain(ctx context.Context, id wire.InstanceID) (apiv1.Explanation, error)
	Logs(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error)
}

// Exec is the part of a backend that has sessions with what runs.
type Exec interface {
	// Exec takes a step of a session. Its owner is the Caller.
	Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error)
}

// What the operations take and answer.
type (
	// InstancesIn is what ListInstances takes.
	InstancesIn struct {
		App     string `query:"app" maxLength:"63" doc:"only of this application"`
		Service string `query:"service" maxLength:"63" doc:"only of this service"`
	}
	// InstanceIn is what GetInstance and ExplainInstance take.
	InstanceIn struct {
		ID string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
	}
	// LogsIn is what ReadLogs takes.
	LogsIn struct {
		ID       string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Offset   int64  `query:"offset" doc:"bytes from the start of the log; negative: lines from its end"`
		Max      int    `query:"max" minimum:"0" maximum:"524288" doc:"bytes at most; 0: 64 KiB"`
		Wait     string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for something new, at most 30s"`
		Since    string `query:"since" maxLength:"16" example:"10m" doc:"leave out older lines, as far as the worker knows"`
		Times    bool   `query:"times" doc:"say when the data was written"`
		Previous bool   `query:"previous" doc:"what the run before the present one has written, or the last one where none runs"`
		Former   int    `query:"former" minimum:"0" maximum:"64" doc:"the log on a worker where the instance was before: 1 is the last before the present; the answer repeats it"`
	}
	// ExecIn is what StartExec takes.
	ExecIn struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body rpc.ExecStart
	}
	// ForwardIn is what StartForward takes.
	ForwardIn struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body rpc.ForwardStart
	}
	// CopyIn is what StartCopy takes.
	CopyIn struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body rpc.CopyStart
	}
	// InvokeIn is what Invoke takes.
	InvokeIn struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body rpc.Invocation
	}
	// SessionIn is what EndExec takes.
	SessionIn struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
	}
	// SessionInputIn is what SendExecInput takes.
	SessionInputIn struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
		Body    rpc.ExecInput
	}
	// SessionOutputIn is what ReadExecOutput takes.
	SessionOutputIn struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
		Stdout  int64  `query:"stdout" minimum:"0" doc:"bytes of stdout that were received; they are forgotten"`
		Stderr  int64  `query:"stderr" minimum:"0" doc:"bytes of stderr that were received; they are forgotten"`
		Wait    string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for more, at most 30s"`
	}
	// SessionView is a session that was begun.
	SessionView struct {
		Session string `json:"session" doc:"names the session to the operations below /v1/exec"`
	}
	// TakenView is what was taken of the input of a session.
	TakenView struct {
		Taken int64 `json:"taken" doc:"how much of the whole input has been taken; the rest is to be sent again"`
	}
)

// Subject implements Subjecter. The program alone: its arguments may be secrets.
func (in *ExecIn) Subject() (on, detail string) {
	if len(in.Body.Command) > 0 {
		detail = in.Body.Command[0]
	}
	return string(access.Instance) + "/" + in.ID, detail
}

// Subject implements Subjecter: which ports is to be seen in the audit log.
func (in *ForwardIn) Subject() (on, detail string) {
	return string(access.Instance) + "/" + in.ID, "ports " + strings.Join(in.Body.Ports, ", ")
}

// Subject implements Subjecter: what was read or written is to be seen in the audit
// log.
func (in *CopyIn) Subject() (on, detail string) {
	detail = "from " + in.Body.Path
	if in.Body.Into {
		detail = "to " + in.Body.Path
	}
	return string(access.Instance) + "/" + in.ID, detail
}

// sessionsInstance is the instance that a session is in: who may go on with it
// is asked at every step, and whether it is the caller's own by its worker.
var sessionsInstance = Finder{params: []string{"session"}, Find: func(s Site, q Question) (access.Object, error) {
	id, err := rpc.ParseExecID(q.Param("session"))
	if err != nil {
		return access.Object{Kind: "session", Name: q.Param("session")}, ErrAbsent
	}
	return s.locate(access.Instance, id.Instance)
}}

// Operations on instances, and sessions with them.
var (
	ListInstances = define("list-instances", "GET /v1/instances", "List instances", each(OfInstance),
		func(ctx context.Context, b Instances, in *InstancesIn) (Items[apiv1.InstanceView], error) {
			return list(b.Instances(ctx, in.App, in.Service))
		})
	GetInstance = define("get-instance", "GET /v1/instances/{id}", "An instance", may(access.See, instance("id")),
		func(ctx context.Context, b Instances, in *InstanceIn) (apiv1.InstanceView, error) {
			return b.Instance(ctx, in.ID)
		})
	ExplainInstance = define("explain-instance", "GET /v1/instances/{id}/explain", "Why an instance is where it is",
		may(access.See, instance("id")),
		func(ctx context.Context, b Instances, in *InstanceIn) (apiv1.Explanation, error) {
			return b.Explain(ctx, in.ID)
		})
	ReadLogs = define[Instances, LogsIn, rpc.LogChunk]("read-logs", "GET /v1/instances/{id}/logs", "Read the log of an instance",
		may(access.Logs, instance("id")), nil)

	StartExec = define[Exec, ExecIn, SessionView]("start-exec", "POST /v1/instances/{id}/exec", "Run a program beside an instance",
		may(access.Exec, instance("id")), nil)
	StartForward = define[Exec, ForwardIn, SessionView]("start-forward", "POST /v1/instances/{id}/forward",
		"Begin a session that carries connections to ports of an instance", may(access.Exec, instance("id")), nil)
	StartCopy = define[Exec, CopyIn, SessionView]("start-copy", "POST /v1/instances/{id}/copy",
		"Begin a session that carries a file or directory from or to an instance", may(access.Exec, instance("id")), nil)
	Invoke = define[Exec, InvokeIn, rpc.Invoked]("invoke", "POST /v1/instances/{id}/invoke", "Send a request to the service of an instance",
		may(access.Exec, instance("id")), nil)
	SendExecInput = define[Exec, SessionInputIn, TakenView]("send-exec-input", "POST /v1/exec/{session}/input",
		"Give a session's program input, or its terminal another size", may(access.Exec, sessionsInstance).silent(), nil)
	ReadExecOutput = define[Exec, SessionOutputIn, rpc.ExecOutput]("read-exec-output", "GET /v1/exec/{session}/output",
		"Read what a session's program has written", may(access.Exec, sessionsInstance).silent(), nil)
	EndExec = define[Exec, SessionIn, None]("end-exec", "DELETE /v1/exec/{session}", "End a session with its program",
		may(access.Exec, sessionsInstance).silent(), nil)
)

// OfInstance is what an instance is for who may see it.
func OfInstance(v apiv1.InstanceView) access.Object {
	return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
}
