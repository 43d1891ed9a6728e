package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// ImageSources knows of none.
func (f *Fake) ImageSources(context.Context, wire.ImageAsk) (wire.ImageSources, error) {
	end, err := f.begin("image sources")
	if err != nil {
		return wire.ImageSources{}, err
	}
	defer end()
	return wire.ImageSources{V: wire.Version}, nil
}
