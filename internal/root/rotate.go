package root

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// CA implements rest.Backend.
func (b backend) CA(context.Context) (wire.CAView, error) { return b.caView(), nil }

func (r *Root) caView() wire.CAView {
	v := wire.CAView{Rotating: r.ca.Rotating(), Server: r.id.Leaf().NotAfter, Members: []wire.CAMember{}}
	for _, c := range r.ca.Certs() {
		v.Authorities = append(v.Authorities, wire.CAAuthority{ID: pki.KeyHash(c.RawSubjectPublicKeyInfo)[:16], Made: c.NotBefore, Expires: c.NotAfter})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range records.SortedKeys(r.m.clusters) {
		cl := r.m.clusters[name]
		m := wire.CAMember{Name: "cluster/" + name, Expires: cl.expires(), Away: cl.suspect || !cl.everHeard}
		if cl.agg != nil {
			m.Current, m.Behind = cl.agg.Trust == r.trusts, cl.agg.Behind
		}
		v.Members = append(v.Members, m)
		away := ""
		if m.Away {
			away = " (it is away)"
		}
		switch {
		case !cl.Revoked.IsZero(): // it has to join again anyway
		case cl.agg == nil:
			v.Behind = append(v.Behind, m.Name+": not heard of since the root started")
		case !m.Current:
			v.Behind = append(v.Behind, m.Name+away)
		case m.Behind > 0:
			v.Behind = append(v.Behind, fmt.Sprintf("%s: %d of its workers%s", m.Name, m.Behind, away))
		}
	}
	return v
}

// caProblems say what an administrator must not forget about the authority.
func (r *Root) caProblems() []string {
	v := r.caView()
	switch half := v.Authorities[0].Made.Add(v.Authorities[0].Expires.Sub(v.Authorities[0].Made) / 2); {
	case v.Rotating && len(v.Behind) == 0:
		return []string{"the root's authority is being rotated, and everybody follows: verge ca rotate --finish"}
	case v.Rotating:
		return []string{"the root's authority is being rotated, and not everybody follows yet: verge ca status"}
	case r.clock.Now().After(half):
		return []string{"the root's authority expires on " + v.Authorities[0].Expires.Format(time.DateOnly) + ", and with it everything: verge ca rotate"}
	}
	return nil
}

// RotateCA implements rest.Backend. Every step is one change of a file, so that a
// crash leaves the rotation before or after it; the rest follows from what is
// trusted then, here and at every node.
func (b backend) RotateCA(_ context.Context, q wire.CARotateRequest) (wire.CAView, error) {
	b.rotating.Lock()
	defer b.rotating.Unlock()
	now := b.clock.Now()
	var err error
	var said string
	switch q.Step {
	case "start":
		said = "a new authority is being brought in"
		err = b.ca.Rotate(now)
	case "finish":
		if v := b.caView(); v.Rotating && len(v.Behind) > 0 && !q.Force {
			return v, wire.Problemf(409, "not-everybody-follows", "wait for them (verge ca status), remove them, or lock them out: verge ca rotate --finish --force",
				"the old authority is still needed", "these trust nothing else: %s", strings.Join(v.Behind, "; "))
		}
		said = "the old authority is retired"
		err = b.ca.Finish()
	case "abort":
		said = "the new authority is given up"
		err = b.ca.Abort()
	default:
		return wire.CAView{}, wire.Problemf(400, "bad-step", "start, finish or abort", "there is no such step", "%.20q", q.Step)
	}
	switch {
	case errors.Is(err, pki.ErrRotating):
		return b.caView(), wire.Problemf(409, "rotating", "see how far it is: verge ca status; end it: verge ca rotate --finish", "the authority is being rotated already", "since %s", b.ca.Certs()[1].NotBefore.Format(time.DateOnly))
	case errors.Is(err, pki.ErrNotRotating):
		return b.caView(), wire.Problemf(409, "not-rotating", "begin with: verge ca rotate", "the authority is not being rotated", "there is only one")
	case err != nil:
		return wire.CAView{}, wire.Problemf(507, "not-stored", "free some space or repair the disk of the root, then try again", "the authority could not be changed", "%v", err)
	}
	b.log.Info(said, "authority", b.ca.ID(), "next", b.ca.NextPin())
	b.events.Add(time.Now(), tier, "root", said)
	if err := b.own(); err != nil {
		b.log.Error("renewing what the root certifies for itself, it is tried again", "error", err)
	}
	b.tellTrust()
	return b.caView(), nil
}

// tellTrust has every cluster hear what is to be trusted now.
func (r *Root) tellTrust() {
	r.mu.Lock()
	r.trusts = r.ca.TrustID()
	names := records.SortedKeys(r.m.clusters)
	r.mu.Unlock()
	for _, name := range names {
		conn, err := r.link(name)
		if err == nil {
			err = exchange.Nudge(conn, exchange.ClusterSubjects())
		}
		if err != nil {
			r.log.Debug("nudging", "cluster", name, "error", err)
		}
	}
	select {
	case r.lookAtOwn <- struct{}{}:
	default:
	}
}
