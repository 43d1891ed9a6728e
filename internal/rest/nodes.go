package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Joining is the part of a backend for nodes that join, and for those whose certificate
// may be of no use any more. It is open to the unauthenticated: a token, or a signature by
// the registered key, is checked instead.
type Joining interface {
	Join(ctx context.Context, r rpc.JoinRequest) (rpc.JoinReply, error)
	// Challenge is what the signature of the next Renew is to cover.
	Challenge(ctx context.Context) (rpc.Challenge, error)
	// Renew certifies the registered key of a node again.
	Renew(ctx context.Context, r rpc.RenewRequest) (rpc.JoinReply, error)
}

// Leaving is the part of a backend for workers that leave.
type Leaving interface {
	// Leave takes a worker out at its own wish, as RemoveWorker does.
	Leave(ctx context.Context, r rpc.LeaveRequest) error
}

// Gateways is the part of a backend for workers that are gateways.
type Gateways interface {
	// GatewayACME does what a gateway asks for of what gateways share of ACME servers;
	// durable when it returns.
	GatewayACME(ctx context.Context, q rpc.ACMERequest) (rpc.ACMEReply, error)
}

// Images is the part of a backend for workers that fetch images.
type Images interface {
	// ImageSources are the workers that may have an image which the worker that asks is
	// to run; what the worker has removed becomes events, and nothing else changes.
	ImageSources(ctx context.Context, q rpc.ImageAsk) (rpc.ImageSources, error)
}

// What the operations take.
type (
	// JoinIn is what Join takes.
	JoinIn struct{ Body rpc.JoinRequest }
	// RenewIn is what Renew takes.
	RenewIn struct{ Body rpc.RenewRequest }
	// LeaveIn is what Leave takes.
	LeaveIn struct{ Body rpc.LeaveRequest }
)

// Subject implements Subjecter.
func (in *JoinIn) Subject() (on, detail string) { return "node/" + in.Body.Name, "" }

// Subject implements Subjecter.
func (in *RenewIn) Subject() (on, detail string) { return "node/" + in.Body.Name, "" }

// Subject implements Subjecter.
func (in *LeaveIn) Subject() (on, detail string) {
	if in.Body.Force {
		detail = "by force"
	}
	return "node/" + in.Body.Name, detail
}

// Nodes send these. The bodies of the last two have private keys: they are in no description
// and no audit log.
var (
	Join           = define[Joining, JoinIn, rpc.JoinReply]("join", "POST /v1/join", "Join as a cluster or worker with a token", joining, nil, unsigned)
	RenewChallenge = define[Joining, None, rpc.Challenge]("renew-challenge", "GET /v1/renew", "What to sign for a renewal", everybody, nil, unsigned)
	Renew          = define[Joining, RenewIn, rpc.JoinReply]("renew", "POST /v1/renew",
		"Renew the certificate of a cluster or worker, also an expired one", everybody, nil, unsigned)
	Leave = define[Leaving, LeaveIn, None]("leave", "POST /v1/leave", "Take a worker out at its own wish", joining, nil, unsigned)

	GatewayACME  = streamOf[Gateways]("gateway-acme", "POST "+rpc.ACMEPath, anyone.silent().forNodes())
	ImageSources = streamOf[Images]("image-sources", "POST "+rpc.ImageSourcesPath, anyone.silent().forNodes())
)
