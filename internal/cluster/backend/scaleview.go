package backend

import (
	"context"

	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ScaleReports implements rest.Backend: what this cluster decided.
func (b *Backend) ScaleReports(_ context.Context, app, service string) ([]rpc.ScaleReport, error) {
	r, err := demand.ScaleReport(b.Core, app+"."+service)
	if err != nil {
		return nil, err
	}
	return []rpc.ScaleReport{r}, nil
}
