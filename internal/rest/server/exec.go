package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// step takes a step of a session with the backend.
func (s *Server) step(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	b, _ := s.backend.(rest.Exec)
	return b.Exec(ctx, q)
}

// start begins a session.
func (s *Server) start(ctx context.Context, q rpc.ExecAsk) (rest.SessionView, error) {
	q.Do = rpc.ExecDoStart
	a, err := s.step(ctx, q)
	s.goesOn(ctx, a.Session)
	return rest.SessionView{Session: a.Session}, err
}

// goesOn notes that the caller goes on with a session.
func (s *Server) goesOn(ctx context.Context, id string) {
	if p, ok := ctx.Value(principalKey{}).(rest.Principal); ok {
		s.sessions.GoesOn(p, id)
	}
}

func (s *Server) startExec(ctx context.Context, in *rest.ExecIn) (rest.SessionView, error) {
	return s.start(ctx, rpc.ExecAsk{Instance: in.ID, Start: &in.Body})
}

func (s *Server) startForward(ctx context.Context, in *rest.ForwardIn) (rest.SessionView, error) {
	v, err := s.start(ctx, rpc.ExecAsk{Instance: in.ID, Forward: &in.Body})
	return v, understood(err)
}

func (s *Server) startCopy(ctx context.Context, in *rest.CopyIn) (rest.SessionView, error) {
	v, err := s.start(ctx, rpc.ExecAsk{Instance: in.ID, Copy: &in.Body})
	return v, understood(err)
}

// understood says of a worker that takes the beginning of a session for a step of
// one that it is older.
func understood(err error) error {
	var p *wire.Problem
	if errors.As(err, &p) && p.Code == rpc.CodeNoSession {
		return wire.Problemf(http.StatusNotImplemented, "older-worker", "upgrade the worker",
			"its worker cannot do that", "it knows sessions of programs alone (verge exec)")
	}
	return err
}

func (s *Server) execInput(ctx context.Context, in *rest.SessionInputIn) (rest.TakenView, error) {
	a, err := s.step(ctx, rpc.ExecAsk{Do: rpc.ExecDoInput, Session: in.Session, Input: &in.Body})
	if err == nil {
		s.goesOn(ctx, in.Session)
	}
	return rest.TakenView{Taken: a.Taken}, err
}

func (s *Server) endExec(ctx context.Context, in *rest.SessionIn) (rest.None, error) {
	_, err := s.step(ctx, rpc.ExecAsk{Do: rpc.ExecDoEnd, Session: in.Session})
	if err == nil {
		s.sessions.HasEnded(in.Session)
	}
	return rest.None{}, err
}

func (s *Server) invoke(ctx context.Context, in *rest.InvokeIn) (rpc.Invoked, error) {
	if len(in.Body.Body) > rpc.MaxInvokeBytes {
		return rpc.Invoked{}, wire.Problemf(http.StatusRequestEntityTooLarge, "too-large",
			"verge object put NAME FILE, and give the function its name",
			"the request is too large", "it has %d bytes, and %d are the most that is carried", len(in.Body.Body),
			rpc.MaxInvokeBytes)
	}
	a, err := drain.Hold(ctx, s.drain, func(ctx context.Context) (rpc.ExecAnswer, error) {
		return s.step(ctx, rpc.ExecAsk{Do: rpc.ExecDoInvoke, Instance: in.ID, Invoke: &in.Body})
	})
	if err != nil {
		return rpc.Invoked{}, err
	}
	if a.Invoked == nil {
		return rpc.Invoked{}, wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the worker",
			"the answer cannot be understood", "there is no answer of a service in it")
	}
	return *a.Invoked, nil
}

func (s *Server) execOutput(ctx context.Context, in *rest.SessionOutputIn) (rpc.ExecOutput, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return rpc.ExecOutput{}, err
	}
	at := rpc.ExecOffset{Stdout: in.Stdout, Stderr: in.Stderr, WaitMs: int(wait / time.Millisecond)}
	a, err := drain.Hold(ctx, s.drain, func(ctx context.Context) (rpc.ExecAnswer, error) {
		return s.step(ctx, rpc.ExecAsk{Do: rpc.ExecDoOutput, Session: in.Session, Output: &at})
	})
	if err != nil {
		return rpc.ExecOutput{}, err
	}
	s.goesOn(ctx, in.Session)
	if a.Output == nil {
		return rpc.ExecOutput{}, wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the worker",
			"the answer cannot be understood", "there is no output in it")
	}
	return *a.Output, nil
}
