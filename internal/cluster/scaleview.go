package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// ScaleReports implements rest.Backend: what this cluster decided.
func (b backend) ScaleReports(_ context.Context, app, service string) ([]wire.ScaleReport, error) {
	r, err := b.scaleReport(app + "." + service)
	if err != nil {
		return nil, err
	}
	return []wire.ScaleReport{r}, nil
}
