package rest

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/verge-edge/verge/internal/wire"
)

// Gateways is the part of a Backend for workers that are gateways.
type Gateways interface {
	// GatewayACME does what a gateway asks for of what gateways share of ACME servers;
	// durable when it returns.
	GatewayACME(ctx context.Context, q wire.ACMERequest) (wire.ACMEReply, error)
}

// registerGateways adds what is not for people: bodies have private keys, and it is in
// no description and no audit log.
func (s *Server) registerGateways() {
	answerNodes(s, wire.ACMEPath, "the request of a gateway", wire.MaxACMEBody, s.backend.GatewayACME)
}

// answerNodes answers what nodes send to path, of at most most bytes; what says in an error
// what that is.
func answerNodes[Q, A any](s *Server, path, what string, most int64, answer func(context.Context, Q) (A, error)) {
	s.handle("POST "+path, anyone.silent().forNodes(), func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&q); err != nil {
			writeProblem(w, wire.Problemf(http.StatusBadRequest, "bad-request", "use the same version of verge on both sides", what+" cannot be read", "it is not JSON of at most %d KiB", most>>10))
			return
		}
		reply, err := answer(r.Context(), q)
		if err != nil {
			p := asProblem(err)
			writeProblem(w, &wire.Problem{Status: p.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Remedy: p.Remedy})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // who asks sees that it was cut off
	})
}

// GatewayACME asks for a gateway; see Gateways.
func (c *Client) GatewayACME(ctx context.Context, q wire.ACMERequest) (r wire.ACMEReply, err error) {
	err = c.send(ctx, http.MethodPost, wire.ACMEPath, q, &r)
	return r, err
}
