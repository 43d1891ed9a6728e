package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/wire"
)

// addOperations adds all operations, each with its handler: of the group that serves it, of
// the server itself, or the answer where it is served.
func (s *Server) addOperations() {
	own := map[*rest.Operation]rest.Handler{
		rest.GetVersion.Operation:     rest.GetVersion.Handle(s.getVersion),
		rest.ReadLogs.Operation:       rest.ReadLogs.Handle(s.logs),
		rest.ListEvents.Operation:     rest.ListEvents.Handle(s.events),
		rest.StartExec.Operation:      rest.StartExec.Handle(s.startExec),
		rest.StartForward.Operation:   rest.StartForward.Handle(s.startForward),
		rest.StartCopy.Operation:      rest.StartCopy.Handle(s.startCopy),
		rest.Invoke.Operation:         rest.Invoke.Handle(s.invoke),
		rest.SendExecInput.Operation:  rest.SendExecInput.Handle(s.execInput),
		rest.ReadExecOutput.Operation: rest.ReadExecOutput.Handle(s.execOutput),
		rest.EndExec.Operation:        rest.EndExec.Handle(s.endExec),
		rest.Join.Operation:           rest.Join.Handle(s.join),
		rest.RenewChallenge.Operation: rest.RenewChallenge.Handle(s.challenge),
		rest.Renew.Operation:          rest.Renew.Handle(s.renew),
		rest.Leave.Operation:          rest.Leave.Handle(s.leave),
	}
	for _, o := range rest.Operations() {
		f := own[o]
		if f == nil {
			f = o.Handler(s.backend)
		}
		if r := s.referral(o); r != nil {
			f = func(_ context.Context, in any) (any, error) { return nil, r.Problem(rest.Asked(in).Param) }
		}
		s.serve(o, f)
	}
}

// referral says where an operation is served that the backend does not serve; nil if it does.
func (s *Server) referral(o *rest.Operation) *rest.Referral {
	r, refers := s.referrals[o.ID]
	switch served := o.ServedBy(s.backend); {
	case served == refers && served:
		s.wrong = append(s.wrong, fmt.Errorf("%s is served here and referred to another place", o.ID))
	case served == refers:
		s.wrong = append(s.wrong,
			fmt.Errorf("%s is neither served, for want of a %v, nor referred to where it is", o.ID, o.Group))
		return &r
	case refers:
		return &r
	}
	return nil
}

// serve adds an operation whose errors are problems, and which is refused to those who may
// not use it.
func (s *Server) serve(o *rest.Operation, f rest.Handler) {
	in, err := s.doc.Add(o)
	if err != nil {
		s.wrong = append(s.wrong, err)
		return
	}
	n := s.declare(o, o.ID)
	recorded := n.Needs.Recorded(o.Method)
	s.mux.HandleFunc(o.Pattern(), func(w http.ResponseWriter, r *http.Request) {
		asks, problem := in.Read(w, r)
		if problem != nil {
			rest.WriteProblem(w, problem)
			return
		}
		out, err := s.perform(r.Context(), n, recorded, asks, f)
		if ended := ended(r.Context()); ended != nil && (err != nil || o.Method == http.MethodGet) {
			err = ended
		}
		if err != nil {
			p := rest.ProblemOf(err)
			if p.Status >= http.StatusInternalServerError && r.Context().Err() == nil {
				s.log.Warn("a request failed", "operation", o.ID, "err", err)
			}
			rest.WriteProblem(w, p)
			return
		}
		s.answer(w, r, out)
	})
}

// answer writes v as JSON. It is encoded before its status is sent, so that a
// value that cannot be encoded becomes a problem and not half an answer.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		s.log.Error("an answer cannot be encoded", "path", r.URL.Path, "err", err)
		rest.WriteProblem(w, wire.Problemf(http.StatusInternalServerError, "internal",
			"this is a bug: the log of this role has the details", "the answer cannot be encoded", "%v", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone cannot be told.
	_, _ = w.Write(append(data, '\n'))
}

// stream adds a handler of a request or an answer that is no JSON of a bounded size, with what
// it needs. Its object is found by the wildcards of the pattern. What is recorded is recorded
// before it begins.
func (s *Server) stream(o *rest.Operation, h http.HandlerFunc) {
	n := s.declare(o, o.Pattern())
	if r := s.referral(o); r != nil {
		h = func(w http.ResponseWriter, q *http.Request) { s.fail(w, r.Problem(q.PathValue)) }
	}
	s.mux.HandleFunc(o.Pattern(), func(w http.ResponseWriter, r *http.Request) {
		q := rest.Question{Param: r.PathValue}
		err := s.permit(r.Context(), n.Needs, q)
		if err == nil && n.Needs.Recorded(o.Method) {
			err = s.audit.Begin(r.Context(), n, q)
		} else if err != nil {
			err = s.audit.Record(r.Context(), n, q, nil, err)
		}
		if err != nil {
			s.fail(w, err)
			return
		}
		h(w, r)
	})
}

// fail answers with what went wrong.
func (s *Server) fail(w http.ResponseWriter, err error) { rest.WriteProblem(w, rest.ProblemOf(err)) }

// declare notes what an operation needs. What is wrong with that New returns.
func (s *Server) declare(o *rest.Operation, id string) audit.Operation {
	d := audit.Operation{ID: id, Needs: o.Needs}
	if o.Needs.Verb == "" {
		return d // refused, see authenticate
	}
	if err := o.Needs.Check(o.In, o.Path); err != nil {
		s.wrong = append(s.wrong, fmt.Errorf("what %s needs: %w", o.Pattern(), err))
	}
	s.declared[o.Pattern()] = d
	return d
}

// perform does what is asked for if who asks may do that, and records it.
func (s *Server) perform(ctx context.Context, n audit.Operation, recorded bool, in any, f rest.Handler) (out any,
	err error) {
	q := rest.Asked(in)
	err = s.permit(ctx, n.Needs, q)
	switch {
	case err != nil:
		err = s.audit.Record(ctx, n, q, nil, err)
	case !recorded:
		out, err = f(ctx, in)
	case n.Needs.Verb == access.Exec:
		if err = s.audit.Begin(ctx, n, q); err == nil {
			out, err = f(ctx, in)
		}
	default:
		out, err = f(ctx, in)
		err = s.audit.Record(ctx, n, q, out, err)
	}
	if err != nil {
		return nil, err
	}
	return s.visible(ctx, n.Needs, out)
}

// visible is of an answer what who asks may see.
func (s *Server) visible(ctx context.Context, n rest.Need, out any) (any, error) {
	who := access.From(ctx)
	if n.Keep == nil || who.Admin {
		return out, nil
	}
	part, err := n.Keep(s.site, who, out)
	if err != nil {
		return nil, err
	}
	if reflect.TypeOf(part) != reflect.TypeOf(out) {
		return nil, fmt.Errorf("a filter made %T of %T", part, out)
	}
	return part, nil
}

// permit says whether who asks may do what n needs: nil, or what to answer.
func (s *Server) permit(ctx context.Context, n rest.Need, q rest.Question) error {
	who := access.From(ctx)
	if n.Finder == nil {
		return nil
	}
	if who.Admin { // who may everything, whatever it is about
		return access.May(who, n.Verb, access.Object{})
	}
	o, err := n.Finder.Find(s.site, q)
	return decide(who, n.Verb, o, err)
}

// decide turns a refusal into what is answered. found is rest.ErrAbsent for an object
// that nobody knows: an administrator learns that from the operation itself.
func decide(who access.Who, v access.Verb, o access.Object, found error) error {
	if found != nil && !errors.Is(found, rest.ErrAbsent) {
		return found
	}
	err := access.May(who, v, o)
	var d *access.Denied
	switch {
	case found != nil && !who.Admin, errors.As(err, &d) && d.Hidden:
		return notThere(o)
	case d != nil:
		return wire.Problemf(http.StatusForbidden, "forbidden",
			"an administrator can change that: verge user grant NAME", "not allowed", "%s", d.Error())
	}
	return err
}

// notThere is the answer for what does not exist and for what who asks may not
// see: word for word the same.
func notThere(o access.Object) error {
	return wire.Problemf(http.StatusNotFound, "no-such-"+string(o.Kind),
		"list what you may see: verge get "+string(o.Kind)+"s",
		"there is no such "+string(o.Kind), "%s is not known, or you may not see it", o.Name)
}

// undeclared answers for an operation that does not say what it needs.
func undeclared(what string) *wire.Problem {
	return wire.Problemf(http.StatusForbidden, "undeclared", "this is a bug: report it",
		"not allowed", "%s does not say who may use it, so nobody may", what)
}

func (s *Server) getVersion(context.Context, *rest.None) (apiv1.VersionView, error) {
	return apiv1.VersionView{Version: s.version, Go: runtime.Version(), Wire: wire.Version}, nil
}
