package doctor

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/leftover"
)

const checkLeftovers, pageLeftovers = "leftovers", "docs/maintenance.md#what-a-worker-left-behind"

// Leftovers looks for leftovers of workers of this machine that no longer run.
func Leftovers(ctx context.Context, o leftover.Options) []Finding {
	list, err := leftover.Find(ctx, o)
	return leftovers(list, err)
}

func leftovers(list []leftover.Worker, err error) []Finding {
	var out []Finding
	for i := range list {
		w := &list[i]
		if w.Intact {
			out = append(out, bad(Note, checkLeftovers, pageLeftovers,
				"start it again, or end what it left: verge worker stop --data-dir "+w.Dir,
				"%s, has left %s", w, w.Summary()))
			continue
		}
		out = append(out, bad(Warn, checkLeftovers, pageLeftovers,
			"verge worker clean --dry-run lists it, verge worker clean removes it", "%s, has left %s", w, w.Summary()))
	}
	if err != nil {
		var all interface{ Unwrap() []error }
		if errors.As(err, &all) && len(all.Unwrap()) > 0 {
			err = all.Unwrap()[0]
		}
		out = append(out, bad(Note, checkLeftovers, pageLeftovers, "see to it, then verge doctor again",
			"not all could be looked at: %v", err))
	}
	if len(out) == 0 {
		return []Finding{ok(checkLeftovers, "no worker has left anything on this machine")}
	}
	return out
}
