package enroll

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/rest/nodeclient"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A node that has an identity and is started with a token that it has not seen
// before is meant to join with it, if what it has does not count any more: it may
// have been removed while it was off. So it asks, once for each token. An identity
// that counts, or of which nobody can be asked, is kept.

const (
	// seenFile notes the token that was looked at last, so that the same command at
	// every start costs nothing.
	seenFile = "token-seen.json"
	// doubtPatience bounds the question at a start.
	doubtPatience = 10 * time.Second
)

var seenKind = &statefile.Kind{What: "which token was looked at", Max: maxJoined, Version: wire.Version}

type seen struct {
	V  int    `json:"v"`
	ID string `json:"id"` // of the token
}

// saw notes a token. If that fails it is looked at again, which does no harm.
func (n Node) saw(tok tokens.Token) {
	if err := seenKind.Write(filepath.Join(n.Dir, seenFile), seen{V: wire.Version, ID: tok.ID}); err != nil {
		n.warn("it could not be noted which token this node has seen: " + err.Error())
	}
}

// unseen is the token of a file, if this node has not looked at it before and could
// join with it. Standard input is not read for this: it may never end.
func (n Node) unseen() (tok tokens.Token, ok bool) {
	if n.TokenFile == "" || n.TokenFile == "-" || n.Ask == nil {
		return tok, false
	}
	tok, _, err := tokens.Read(n.TokenFile, nil)
	if err != nil || tok.CheckKind(n.Kind) != nil || !joinClock(n.Clock, tok)().Before(tok.Expires) {
		return tok, false // it was of use once, or never
	}
	var s seen
	if _, err := seenKind.Read(filepath.Join(n.Dir, seenFile), &s); err == nil && s.ID == tok.ID {
		return tok, false
	}
	return tok, true
}

// doubt asks the tier above whether the identity of this node counts, if it was
// given a token that it has not seen. marked: it does not, for good.
func (n Node) doubt(ctx context.Context, have rpc.JoinReply) (_ rpc.JoinReply, mark refusal, marked bool) {
	tok, ok := n.unseen()
	if !ok {
		return have, mark, false
	}
	ctx, cancel := context.WithTimeout(ctx, doubtPatience)
	defer cancel()
	now, err := n.Ask(ctx, have)
	if p := Final(err); p != nil {
		n.warn(p.Title + " (" + p.Detail + "): it joins again with the token in " + n.TokenFile)
		return have, refusal{V: wire.Version, Problem: *p}, true
	}
	var p *wire.Problem
	switch {
	case err == nil:
		if now.Chain != "" {
			err = n.Save(n.Dir, now)
		}
		now = Moved(have, now)
		if err := errors.Join(err, SaveJoined(n.Dir, now)); err != nil {
			n.warn("what the tier above said could not be stored: " + err.Error())
			return have, mark, false
		}
		have = now
		fallthrough
	case errors.As(err, &p) && p.Code == CodeTooSoon: // it counts, too
		n.saw(tok)
		n.warn("the token in " + n.TokenFile + " is not used: this node has joined cluster " + have.Cluster +
			" before, and is known there. " +
			"To make it another one, give it another --data-dir, or remove it there first")
	default:
		n.warn("this node has joined cluster " + have.Cluster +
			" before and keeps that identity; the cluster could not be asked whether it still knows it: " + err.Error())
	}
	return have, mark, false
}

// Asker asks a tier above, at its HTTP interface, for the certificate of a key again.
type Asker struct {
	// API, Server, TLS and Prove are as in Renewer.
	API    []string
	Server string
	TLS    *tls.Config
	Prove  func(text string) ([]byte, error)
}

// Leave asks to be taken out.
func (a Asker) Leave(ctx context.Context, req rpc.LeaveRequest) error {
	conf := a.TLS.Clone()
	conf.GetClientCertificate, conf.Certificates = nil, nil // as in Ask
	return nodeclient.LeaveAt(ctx, a.API, conf, func(challenge string) (rpc.LeaveRequest, error) {
		req.Challenge = challenge
		var err error
		req.Signature, err = a.Prove(LeaveText(a.Server, req))
		return req, err
	})
}

// Ask sends a renewal; see Final for refusals that count.
func (a Asker) Ask(ctx context.Context, req rpc.RenewRequest) (rpc.JoinReply, error) {
	// A certificate that has expired would end the handshake; who we are is in the
	// request.
	conf := a.TLS.Clone()
	conf.GetClientCertificate, conf.Certificates = nil, nil
	reply, err := nodeclient.RenewAt(ctx, a.API, conf, func(challenge string) (rpc.RenewRequest, error) {
		req.Challenge = challenge
		var err error
		req.Signature, err = a.Prove(ProofText(a.Server, req))
		return req, err
	})
	if err != nil {
		return reply, err
	}
	if err := wire.CheckVersion("the answer to the renewal", reply.V); err != nil {
		return reply, fmt.Errorf("asking for the certificate: %w", err)
	}
	return reply, nil
}
