package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// CA is CAState.
func (f *Fake) CA(context.Context) (wire.CAView, error) {
	end, err := f.begin("ca")
	if err != nil {
		return wire.CAView{}, err
	}
	defer end()
	return f.CAState, nil
}

// RotateCA records the request and answers CAState; Hook changes it.
func (f *Fake) RotateCA(_ context.Context, r wire.CARotateRequest) (wire.CAView, error) {
	end, err := f.begin("rotate-ca")
	if err != nil {
		return wire.CAView{}, err
	}
	defer end()
	f.Rotations = append(f.Rotations, r)
	return f.CAState, nil
}
