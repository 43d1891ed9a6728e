package root

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// CA implements backend.Node.
func (r *Root) CA(context.Context) (apiv1.CAView, error) { return r.caView(), nil }

func (r *Root) caView() apiv1.CAView {
	v := apiv1.CAView{Rotating: r.ca.Rotating(), Server: r.id.Leaf().NotAfter, Members: []apiv1.CAMember{}}
	for _, c := range r.ca.Certs() {
		v.Authorities = append(v.Authorities,
			apiv1.CAAuthority{ID: pki.KeyHash(c.RawSubjectPublicKeyInfo)[:16], Made: c.NotBefore, Expires: c.NotAfter})
	}
	return core.View(r.Core, func(m *state.Model) apiv1.CAView {
		for _, name := range records.SortedKeys(m.Clusters) {
			cl := m.Clusters[name]
			m := apiv1.CAMember{Name: "cluster/" + name, Expires: cl.ExpiresAt(), Away: cl.Suspect || !cl.EverHeard}
			if cl.Aggregate != nil {
				m.Current, m.Behind = cl.Aggregate.Trust == r.Trusts, cl.Aggregate.Behind
			}
			v.Members = append(v.Members, m)
			away := ""
			if m.Away {
				away = " (it is away)"
			}
			switch {
			case !cl.Revoked.IsZero(): // it has to join again anyway
			case cl.Aggregate == nil:
				v.Behind = append(v.Behind, m.Name+": has not reported since the root started")
			case !m.Current:
				v.Behind = append(v.Behind, m.Name+away)
			case m.Behind > 0:
				v.Behind = append(v.Behind, fmt.Sprintf("%s: %d of its workers%s", m.Name, m.Behind, away))
			}
		}
		return v
	})
}

// Problems implements backend.Node: clusters that call and are not known, and what an
// administrator must not forget about the authority.
func (r *Root) Problems(known map[string]bool) []string {
	return append(r.callers.Strangers(known, time.Now()), r.caProblems()...)
}

func (r *Root) caProblems() []string {
	v := r.caView()
	switch half := v.Authorities[0].Made.Add(v.Authorities[0].Expires.Sub(v.Authorities[0].Made) / 2); {
	case v.Rotating && len(v.Behind) == 0:
		return []string{"the root's authority is being rotated, and everybody follows: verge ca rotate --finish"}
	case v.Rotating:
		return []string{"the root's authority is being rotated, and not everybody follows yet: verge ca status"}
	case r.clock.Now().After(half):
		return []string{"the root's authority expires on " + v.Authorities[0].Expires.Format(time.DateOnly) +
			", and with it everything: verge ca rotate"}
	}
	return nil
}

// RotateCA implements backend.Node. Every step is one change of a file, so that a
// crash leaves the rotation before or after it; the rest follows from what is
// trusted then, here and at every node.
func (r *Root) RotateCA(_ context.Context, q apiv1.CARotateRequest) (apiv1.CAView, error) {
	r.rotating.Lock()
	defer r.rotating.Unlock()
	now := r.clock.Now()
	var err error
	var said string
	switch q.Step {
	case "start":
		said = "a new authority is being brought in"
		err = r.ca.Rotate(now)
	case "finish":
		if v := r.caView(); v.Rotating && len(v.Behind) > 0 && !q.Force {
			return v, wire.Problemf(409, "not-everybody-follows",
				"wait for them (verge ca status), remove them, or lock them out: verge ca rotate --finish --force",
				"the old authority is still needed", "these trust nothing else: %s", strings.Join(v.Behind, "; "))
		}
		said = "the old authority is retired"
		err = r.ca.Finish()
	case "abort":
		said = "the new authority is given up"
		err = r.ca.Abort()
	default:
		return apiv1.CAView{}, wire.Problemf(400, "bad-step", "start, finish or abort", "there is no such step",
			"%.20q", q.Step)
	}
	switch {
	case errors.Is(err, pki.ErrRotating):
		return r.caView(), wire.Problemf(409, "rotating",
			"see how far it is: verge ca status; end it: verge ca rotate --finish",
			"the authority is being rotated already", "since %s", r.ca.Certs()[1].NotBefore.Format(time.DateOnly))
	case errors.Is(err, pki.ErrNotRotating):
		return r.caView(), wire.Problemf(409, "not-rotating", "begin with: verge ca rotate",
			"the authority is not being rotated", "there is only one")
	case err != nil:
		return apiv1.CAView{}, wire.Problemf(507, "not-stored",
			"free some space or repair the disk of the root, then try again", "the authority could not be changed",
			"%v", err)
	}
	r.EventRing.Note(time.Now(), event.RootRotation, "", said)
	if err := r.own(); err != nil {
		r.Logger.Error("renewing what the root certifies for itself, it is tried again", "error", err)
	}
	r.tellTrust()
	return r.caView(), nil
}

// tellTrust has every cluster hear what is to be trusted now.
func (r *Root) tellTrust() {
	for _, name := range core.View(r.Core, func(m *state.Model) []string {
		r.Trusts = r.ca.TrustID()
		return records.SortedKeys(m.Clusters)
	}) {
		conn, err := r.LinkTo(name)
		if err == nil {
			err = exchange.Nudge(conn, exchange.ClusterSubjects())
		}
		if err != nil {
			r.Logger.Debug("nudging", "cluster", name, "error", err)
		}
	}
	select {
	case r.lookAtOwn <- struct{}{}:
	default:
	}
}
