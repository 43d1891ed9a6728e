package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// ScaleReports are those of Scales for that service.
func (f *Fake) ScaleReports(_ context.Context, app, service string) ([]wire.ScaleReport, error) {
	list, err := all(f, "scale-reports", &f.Scales)
	out := []wire.ScaleReport{}
	for _, r := range list {
		if r.App == app && r.Service == service {
			out = append(out, r)
		}
	}
	if err == nil && len(out) == 0 {
		err = missing("service", app+"."+service)
	}
	return out, err
}
