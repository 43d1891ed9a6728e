package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/server/audit"
	"github.com/verge-edge/verge/internal/rest/server/limit"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of what the unauthenticated may do from one address.
const (
	joinsPerSecond   = 5 // that are refused
	joinBurst        = 20
	goodPerSecond    = 500 // all: a site may join behind one address
	goodBurst        = 1000
	guessesPerSecond = 1
	guessBurst       = 20
	// Each renewal costs two signatures. After a power cut at a site that was off for a
	// year all its workers come at once, and they come again.
	renewalsPerSecond = 10
	renewalBurst      = 50
)

// limits are the bounds of what is asked and refused, by address.
type limits struct {
	joins     *limit.Sources // of join requests that were refused
	goodJoins *limit.Sources // of all join requests
	renewals  *limit.Sources // of requests to renew
	guesses   *limit.Sources // of refused credentials
	trusted   *limit.Trusted
}

func newLimits() limits {
	return limits{
		joins: limit.NewSources(joinsPerSecond, joinBurst), goodJoins: limit.NewSources(goodPerSecond, goodBurst),
		renewals: limit.NewSources(renewalsPerSecond, renewalBurst),
		guesses:  limit.NewSources(guessesPerSecond, guessBurst),
		trusted:  new(limit.Trusted),
	}
}

func (s *Server) join(ctx context.Context, in *rest.JoinIn) (rpc.JoinReply, error) {
	peer := audit.PeerOf(ctx)
	if s.limits.joins.Exhausted(peer, time.Now()) || !s.limits.goodJoins.Allow(peer, time.Now()) {
		return rpc.JoinReply{}, wire.Problemf(http.StatusTooManyRequests, "too-many-joins",
			"wait a second and try again",
			"too many join requests",
			"at most %d a second are answered from one address that are refused, and %d of all", joinsPerSecond,
			goodPerSecond)
	}
	b, _ := s.backend.(rest.Joining)
	reply, err := b.Join(ctx, in.Body)
	if err != nil {
		s.limits.joins.Allow(peer, time.Now()) // takes one from the bucket
	}
	return reply, err
}

func (s *Server) challenge(ctx context.Context, _ *rest.None) (rpc.Challenge, error) {
	if err := s.mayRenew(ctx); err != nil {
		return rpc.Challenge{}, err
	}
	b, _ := s.backend.(rest.Joining)
	return b.Challenge(ctx)
}

func (s *Server) renew(ctx context.Context, in *rest.RenewIn) (rpc.JoinReply, error) {
	if err := s.mayRenew(ctx); err != nil {
		return rpc.JoinReply{}, err
	}
	b, _ := s.backend.(rest.Joining)
	return b.Renew(ctx, in.Body)
}

func (s *Server) leave(ctx context.Context, in *rest.LeaveIn) (rest.None, error) {
	if err := s.mayRenew(ctx); err != nil {
		return rest.None{}, err
	}
	b, _ := s.backend.(rest.Leaving)
	return rest.None{}, b.Leave(ctx, in.Body)
}

func (s *Server) mayRenew(ctx context.Context) error {
	if s.limits.renewals.Allow(audit.PeerOf(ctx), time.Now()) {
		return nil
	}
	return wire.Problemf(http.StatusTooManyRequests, "too-many-renewals", "wait a second and try again",
		"too many renewals", "at most %d a second are answered from one address", renewalsPerSecond/2)
}

// maxImageAsk bounds what a worker asks.
const maxImageAsk = 4 << 10

// addNodeStreams adds what nodes ask with their own certificates.
func (s *Server) addNodeStreams() {
	gateways, _ := s.backend.(rest.Gateways)
	images, _ := s.backend.(rest.Images)
	s.stream(rest.GatewayACME,
		answerNodes("the request of a gateway", rpc.MaxACMEBody,
			func(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error) {
				return gateways.GatewayACME(ctx, q)
			}))
	s.stream(rest.ImageSources,
		answerNodes("the question of a worker", maxImageAsk,
			func(ctx context.Context, q rpc.ImageAsk) (rpc.ImageSources, error) {
				return images.ImageSources(ctx, q)
			}))
}

// answerNodes answers what nodes send, of at most most bytes; what says in an error
// what that is.
func answerNodes[Q, A any](what string, most int64, answer func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, most)).Decode(&q); err != nil {
			rest.WriteProblem(w, wire.Problemf(http.StatusBadRequest, "bad-request",
				"use the same version of verge on both sides",
				what+" cannot be read", "it is not JSON of at most %d KiB", most>>10))
			return
		}
		reply, err := answer(r.Context(), q)
		if err != nil {
			rest.WriteProblem(w, rest.ProblemOf(err))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(reply) // who asks sees that it was cut off
	}
}
