package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Challenge is always the same.
func (f *Fake) Challenge(context.Context) (wire.Challenge, error) {
	return do(f, "challenge", func() (wire.Challenge, error) {
		return wire.Challenge{Challenge: "sign this"}, nil
	})
}

// Leave records the name of who leaves.
func (f *Fake) Leave(_ context.Context, r wire.LeaveRequest) error {
	return f.run("leave", func() error {
		f.Left = append(f.Left, r.Name)
		return nil
	})
}

// Renew records the request and answers JoinAnswer.
func (f *Fake) Renew(_ context.Context, r wire.RenewRequest) (wire.JoinReply, error) {
	return do(f, "renew", func() (wire.JoinReply, error) {
		f.Renewals = append(f.Renewals, r)
		return f.JoinAnswer, nil
	})
}

// GatewayACME finds nothing.
func (f *Fake) GatewayACME(context.Context, wire.ACMERequest) (wire.ACMEReply, error) {
	return do(f, "gateway acme", func() (wire.ACMEReply, error) {
		return wire.ACMEReply{V: wire.Version}, nil
	})
}

// ImageSources knows of none.
func (f *Fake) ImageSources(context.Context, wire.ImageAsk) (wire.ImageSources, error) {
	return do(f, "image sources", func() (wire.ImageSources, error) {
		return wire.ImageSources{V: wire.Version}, nil
	})
}
