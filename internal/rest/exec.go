package rest

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Looking is the part of a Backend that looks into what runs.
type Looking interface {
	// Exec takes a step of a session. Its owner is the Caller.
	Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error)
	// Changes returns what is closed when what the lists show may have changed.
	Changes() <-chan struct{}
}

type (
	execInput struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body wire.ExecStart
	}
	forwardInput struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body wire.ForwardStart
	}
	copyInput struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body wire.CopyStart
	}
	invokeInput struct {
		ID   string `path:"id" maxLength:"200" doc:"application.service.ordinal"`
		Body wire.Invocation
	}
	sessionInput struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
	}
	sessionInputInput struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
		Body    wire.ExecInput
	}
	sessionOutputInput struct {
		Session string `path:"session" maxLength:"400" doc:"as the start of the session named it"`
		Stdout  int64  `query:"stdout" minimum:"0" doc:"bytes of stdout that were received; they are forgotten"`
		Stderr  int64  `query:"stderr" minimum:"0" doc:"bytes of stderr that were received; they are forgotten"`
		Wait    string `query:"wait" maxLength:"16" example:"20s" doc:"wait this long for more, at most 30s"`
	}
	sessionView struct {
		Session string `json:"session" doc:"names the session to the operations below /v1/exec"`
	}
	takenView struct {
		Taken int64 `json:"taken" doc:"how much of the whole input has been taken; the rest is to be sent again"`
	}
)

// subject implements subjecter: which ports is to be seen in the audit log.
func (in *forwardInput) subject() (on, detail string) {
	return string(access.Instance) + "/" + in.ID, "ports " + strings.Join(in.Body.Ports, ", ")
}

// subject implements subjecter: what was read or written is to be seen in the audit
// log.
func (in *copyInput) subject() (on, detail string) {
	detail = "from " + in.Body.Path
	if in.Body.Into {
		detail = "to " + in.Body.Path
	}
	return string(access.Instance) + "/" + in.ID, detail
}

// sessionsInstance is the instance that a session is in: who may go on with it
// is asked at every step, and whether it is the caller's own by its worker.
var sessionsInstance = finder{params: []string{"session"}, find: func(s *Server, q question) (access.Object, error) {
	id, err := wire.ParseExecID(q.param("session"))
	if err != nil {
		return access.Object{Kind: "session", Name: q.param("session")}, errAbsent
	}
	return s.locate(access.Instance, id.Instance)
}}

func (s *Server) registerLooking(api huma.API) {
	b := s.backend
	register(s, api, op("start-exec", http.MethodPost, "/v1/instances/{id}/exec", "Run a program beside an instance", may(access.Exec, instance("id"))),
		func(ctx context.Context, in *execInput) (sessionView, error) {
			a, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoStart, Instance: in.ID, Start: &in.Body})
			s.goesOn(ctx, a.Session)
			return sessionView{a.Session}, err
		})
	register(s, api, op("start-forward", http.MethodPost, "/v1/instances/{id}/forward", "Begin a session that carries connections to ports of an instance", may(access.Exec, instance("id"))),
		func(ctx context.Context, in *forwardInput) (sessionView, error) {
			a, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoStart, Instance: in.ID, Forward: &in.Body})
			s.goesOn(ctx, a.Session)
			return sessionView{a.Session}, understood(err)
		})
	register(s, api, op("start-copy", http.MethodPost, "/v1/instances/{id}/copy", "Begin a session that carries a file or directory from or to an instance", may(access.Exec, instance("id"))),
		func(ctx context.Context, in *copyInput) (sessionView, error) {
			a, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoStart, Instance: in.ID, Copy: &in.Body})
			s.goesOn(ctx, a.Session)
			return sessionView{a.Session}, understood(err)
		})
	register(s, api, op("invoke", http.MethodPost, "/v1/instances/{id}/invoke", "Send a request to the service of an instance", may(access.Exec, instance("id"))), s.invoke)
	register(s, api, op("send-exec-input", http.MethodPost, "/v1/exec/{session}/input", "Give a session's program input, or its terminal another size", may(access.Exec, sessionsInstance).silent()),
		func(ctx context.Context, in *sessionInputInput) (takenView, error) {
			a, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoInput, Session: in.Session, Input: &in.Body})
			if err == nil {
				s.goesOn(ctx, in.Session)
			}
			return takenView{a.Taken}, err
		})
	register(s, api, op("read-exec-output", http.MethodGet, "/v1/exec/{session}/output", "Read what a session's program has written", may(access.Exec, sessionsInstance).silent()), s.execOutput)
	register(s, api, op("end-exec", http.MethodDelete, "/v1/exec/{session}", "End a session with its program", may(access.Exec, sessionsInstance).silent()),
		func(ctx context.Context, in *sessionInput) (none, error) {
			_, err := b.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoEnd, Session: in.Session})
			if err == nil {
				s.hasEnded(in.Session)
			}
			return none{}, err
		})
}

// understood says of a worker that takes the beginning of a session for a step of
// one that it is older.
func understood(err error) error {
	var p *wire.Problem
	if errors.As(err, &p) && p.Code == wire.CodeNoSession {
		return wire.Problemf(http.StatusNotImplemented, "older-worker", "upgrade the worker", "its worker cannot do that", "it knows sessions of programs alone (verge exec)")
	}
	return err
}

func (s *Server) invoke(ctx context.Context, in *invokeInput) (wire.Invoked, error) {
	if len(in.Body.Body) > wire.MaxInvokeBytes {
		return wire.Invoked{}, wire.Problemf(http.StatusRequestEntityTooLarge, "too-large", "verge object put NAME FILE, and give the function its name",
			"the request is too large", "it has %d bytes, and %d are the most that is carried", len(in.Body.Body), wire.MaxInvokeBytes)
	}
	a, err := waiting(ctx, s, func(ctx context.Context) (wire.ExecAnswer, error) {
		return s.backend.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoInvoke, Instance: in.ID, Invoke: &in.Body})
	})
	if err != nil {
		return wire.Invoked{}, err
	}
	if a.Invoked == nil {
		return wire.Invoked{}, wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the worker", "the answer cannot be understood", "there is no answer of a service in it")
	}
	return *a.Invoked, nil
}

func (s *Server) execOutput(ctx context.Context, in *sessionOutputInput) (wire.ExecOutput, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return wire.ExecOutput{}, err
	}
	at := wire.ExecOffset{Stdout: in.Stdout, Stderr: in.Stderr, WaitMs: int(wait / time.Millisecond)}
	a, err := waiting(ctx, s, func(ctx context.Context) (wire.ExecAnswer, error) {
		return s.backend.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoOutput, Session: in.Session, Output: &at})
	})
	if err != nil {
		return wire.ExecOutput{}, err
	}
	s.goesOn(ctx, in.Session)
	if a.Output == nil {
		return wire.ExecOutput{}, wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the worker", "the answer cannot be understood", "there is no output in it")
	}
	return *a.Output, nil
}
