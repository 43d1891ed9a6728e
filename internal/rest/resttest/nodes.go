package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Challenge is always the same.
func (f *Fake) Challenge(context.Context) (rpc.Challenge, error) {
	return do(f, "challenge", func() (rpc.Challenge, error) {
		return rpc.Challenge{Challenge: "sign this"}, nil
	})
}

// Leave records the name of who leaves.
func (f *Fake) Leave(_ context.Context, r rpc.LeaveRequest) error {
	return f.run("leave", func() error {
		f.Left = append(f.Left, r.Name)
		return nil
	})
}

// Renew records the request and answers JoinAnswer.
func (f *Fake) Renew(_ context.Context, r rpc.RenewRequest) (rpc.JoinReply, error) {
	return do(f, "renew", func() (rpc.JoinReply, error) {
		f.Renewals = append(f.Renewals, r)
		return f.JoinAnswer, nil
	})
}

// GatewayACME finds nothing.
func (f *Fake) GatewayACME(context.Context, rpc.ACMERequest) (rpc.ACMEReply, error) {
	return do(f, "gateway acme", func() (rpc.ACMEReply, error) {
		return rpc.ACMEReply{V: wire.Version}, nil
	})
}

// ImageSources knows of none.
func (f *Fake) ImageSources(context.Context, rpc.ImageAsk) (rpc.ImageSources, error) {
	return do(f, "image sources", func() (rpc.ImageSources, error) {
		return rpc.ImageSources{V: wire.Version}, nil
	})
}
