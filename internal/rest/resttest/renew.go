package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Challenge is always the same.
func (f *Fake) Challenge(context.Context) (wire.Challenge, error) {
	end, err := f.begin("challenge")
	if err != nil {
		return wire.Challenge{}, err
	}
	defer end()
	return wire.Challenge{Challenge: "sign this"}, nil
}

// Leave records the name of who leaves.
func (f *Fake) Leave(_ context.Context, r wire.LeaveRequest) error {
	end, err := f.begin("leave")
	if err != nil {
		return err
	}
	defer end()
	f.Left = append(f.Left, r.Name)
	return nil
}

// Renew records the request and answers JoinAnswer.
func (f *Fake) Renew(_ context.Context, r wire.RenewRequest) (wire.JoinReply, error) {
	end, err := f.begin("renew")
	if err != nil {
		return wire.JoinReply{}, err
	}
	defer end()
	f.Renewals = append(f.Renewals, r)
	return f.JoinAnswer, nil
}
