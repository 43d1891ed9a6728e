package supervise

import (
	"context"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/wire"
)

// volumesAgain is the pause after a work on volumes failed.
const volumesAgain = 5 * time.Second

// workOnVolumes does what an order asks for of the volumes of the instance, which is
// stopped. False if there is nothing to do.
func (in *Instance) workOnVolumes(ctx context.Context, o *wire.Order) bool {
	w := o.Volumes
	if w == nil || w.Do == wire.VolumeHold || o.Spec == nil || in.worked.About(w) && (in.worked.Done || in.worked.Final) {
		return false
	}
	in.endCopies(wire.Problemf(http.StatusConflict, "volume-busy", "copy it again when the instance runs: verge describe instance/"+in.ID, "it was not copied as a whole", "the volumes of %s are copied themselves now (%s)", in.ID, w.Do))
	done := make(chan struct{})
	var report *wire.VolumeReport
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(done)
		report = in.deps.Volumes.Do(working, o)
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-in.wake:
			if g := in.Goal(); g.Kind != plan.Stop || !g.Order.Volumes.Same(w) {
				cancel() // it is not wanted any more
				<-done
				over = true
			}
		}
	}
	if working.Err() != nil {
		return true
	}
	in.worked = report
	in.settle(in.Goal())
	if !report.Done {
		in.log.Warn("the volumes could not be "+w.Do+"ed", "final", report.Final, "error", report.Why)
	}
	if !report.Done && !report.Final {
		in.pause(ctx, volumesAgain)
	}
	return true
}
