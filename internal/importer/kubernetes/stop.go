package kubernetes

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
)

// end converts how an instance is ended.
func (g *group) end(w *workload, c *container, out *api.Service) {
	o := w.object
	out.Stop.Grace = api.Duration(30 * time.Second) // Kubernetes' default, longer than Verge's
	if s := w.pod.TerminationGracePeriodSeconds; s != nil {
		at := source.Extend(w.path, "terminationGracePeriodSeconds")
		switch {
		case *s < 0:
			g.refuse(o, at, "Kubernetes would refuse it: %d is less than none", *s)
		case *s == 0:
			out.Stop.Grace, out.Stop.Signal = 0, "KILL"
		default:
			out.Stop.Grace = draft.Clamp(g.report, o.Doc, at, seconds(*s), time.Millisecond, 10*time.Minute)
		}
	}
	l := c.Lifecycle
	if l == nil {
		return
	}
	at := source.Extend(c.path, "lifecycle")
	if l.StopSignal != nil && out.Stop.Signal != "KILL" {
		if sig := strings.TrimPrefix(string(*l.StopSignal), "SIG"); slices.Contains(draft.StopSignals, sig) {
			out.Stop.Signal = sig
		} else {
			g.lost(o, source.Extend(at, "stopSignal"), "%s is not carried over: Verge sends %s", source.Quote(sig),
				strings.Join(draft.StopSignals, ", "))
		}
	}
	if l.PreStop != nil {
		g.lost(o, source.Extend(at, "preStop"), manifest.NoHooks)
	}
	if l.PostStart != nil {
		g.lost(o, source.Extend(at, "postStart"), manifest.NoHooks)
	}
}
