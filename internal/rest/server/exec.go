package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/drain"
	"github.com/verge-edge/verge/internal/wire"
)

// step takes a step of a session with the backend.
func (s *Server) step(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	b, _ := s.backend.(rest.Exec)
	return b.Exec(ctx, q)
}

// start begins a session.
func (s *Server) start(ctx context.Context, q wire.ExecAsk) (rest.SessionView, error) {
	q.Do = wire.ExecDoStart
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
	return s.start(ctx, wire.ExecAsk{Instance: in.ID, Start: &in.Body})
}

func (s *Server) startForward(ctx context.Context, in *rest.ForwardIn) (rest.SessionView, error) {
	v, err := s.start(ctx, wire.ExecAsk{Instance: in.ID, Forward: &in.Body})
	return v, understood(err)
}

func (s *Server) startCopy(ctx context.Context, in *rest.CopyIn) (rest.SessionView, error) {
	v, err := s.start(ctx, wire.ExecAsk{Instance: in.ID, Copy: &in.Body})
	return v, understood(err)
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

func (s *Server) execInput(ctx context.Context, in *rest.SessionInputIn) (rest.TakenView, error) {
	a, err := s.step(ctx, wire.ExecAsk{Do: wire.ExecDoInput, Session: in.Session, Input: &in.Body})
	if err == nil {
		s.goesOn(ctx, in.Session)
	}
	return rest.TakenView{Taken: a.Taken}, err
}

func (s *Server) endExec(ctx context.Context, in *rest.SessionIn) (rest.None, error) {
	_, err := s.step(ctx, wire.ExecAsk{Do: wire.ExecDoEnd, Session: in.Session})
	if err == nil {
		s.sessions.HasEnded(in.Session)
	}
	return rest.None{}, err
}

func (s *Server) invoke(ctx context.Context, in *rest.InvokeIn) (wire.Invoked, error) {
	if len(in.Body.Body) > wire.MaxInvokeBytes {
		return wire.Invoked{}, wire.Problemf(http.StatusRequestEntityTooLarge, "too-large", "verge object put NAME FILE, and give the function its name",
			"the request is too large", "it has %d bytes, and %d are the most that is carried", len(in.Body.Body), wire.MaxInvokeBytes)
	}
	a, err := drain.Hold(ctx, s.drain, func(ctx context.Context) (wire.ExecAnswer, error) {
		return s.step(ctx, wire.ExecAsk{Do: wire.ExecDoInvoke, Instance: in.ID, Invoke: &in.Body})
	})
	if err != nil {
		return wire.Invoked{}, err
	}
	if a.Invoked == nil {
		return wire.Invoked{}, wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the worker", "the answer cannot be understood", "there is no answer of a service in it")
	}
	return *a.Invoked, nil
}

func (s *Server) execOutput(ctx context.Context, in *rest.SessionOutputIn) (wire.ExecOutput, error) {
	wait, err := parseWait(in.Wait)
	if err != nil {
		return wire.ExecOutput{}, err
	}
	at := wire.ExecOffset{Stdout: in.Stdout, Stderr: in.Stderr, WaitMs: int(wait / time.Millisecond)}
	a, err := drain.Hold(ctx, s.drain, func(ctx context.Context) (wire.ExecAnswer, error) {
		return s.step(ctx, wire.ExecAsk{Do: wire.ExecDoOutput, Session: in.Session, Output: &at})
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
