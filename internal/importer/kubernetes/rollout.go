package kubernetes

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
)

func (g *group) rollout(w *workload, out *api.Service) {
	o, strategy, field := w.object, &w.spec.Strategy, "strategy"
	if o.Kind == "StatefulSet" || o.Kind == "DaemonSet" {
		strategy, field = &w.spec.UpdateStrategy, "updateStrategy"
	}
	at := o.At("spec", field)
	types := []string{"RollingUpdate", "Recreate"}
	if field == "updateStrategy" {
		types[1] = "OnDelete"
	}
	if t := strategy.Type; t != "" && !slices.Contains(types, t) {
		g.refuse(o, source.Extend(at, "type"), "Kubernetes would refuse it: %s is not a strategy of a %s (%s)",
			source.Quote(t),
			o.Kind, strings.Join(types, ", "))
		return
	}
	switch strategy.Type {
	case "Recreate":
		surge, all := api.Amount(0), api.Amount(-100)
		out.Rollout.MaxSurge, out.Rollout.MaxUnavailable = &surge, &all
		g.said(o, source.Extend(at, "type"), "all instances are updated at once, each when its old one has ended")
	case "OnDelete":
		g.lost(o, source.Extend(at, "type"), "is not carried over: what is applied is rolled out")
	}
	if r := strategy.RollingUpdate; r != nil {
		in := source.Extend(at, "rollingUpdate")
		out.Rollout.MaxSurge = g.amount(o, source.Extend(in, "maxSurge"), r.MaxSurge)
		out.Rollout.MaxUnavailable = g.amount(o, source.Extend(in, "maxUnavailable"), r.MaxUnavailable)
		if s, u := out.Rollout.MaxSurge, out.Rollout.MaxUnavailable; s != nil && *s == 0 && u != nil && *u == 0 {
			g.refuse(o, in, "Kubernetes would refuse it: maxSurge and maxUnavailable are both 0")
		}
		if r.Partition != nil && *r.Partition > 0 {
			g.lost(o, source.Extend(in, "partition"), "is not carried over: all instances are updated")
		}
	}
	if s := w.spec.MinReadySeconds; s > 0 {
		d := draft.Clamp(g.report, o.Doc, o.At("spec", "minReadySeconds"), time.Duration(s)*time.Second, 0, time.Hour)
		out.Rollout.MinReady = &d
	}
	if s := w.spec.ProgressDeadlineSeconds; s != nil {
		d := draft.Clamp(g.report, o.Doc, o.At("spec", "progressDeadlineSeconds"), time.Duration(*s)*time.Second, time.Second,
			24*time.Hour)
		out.Rollout.ProgressDeadline = &d
	}
}

// amount converts a number of instances, or a share of them.
func (g *group) amount(o *manifest.Object, path []string, v *intstr.IntOrString) *api.Amount {
	if v == nil {
		return nil
	}
	a, err := api.ParseAmount(v.String())
	if err != nil {
		if n, is := strings.CutSuffix(v.String(), "%"); is && len(n) == 3 && n > "100" &&
			strings.Trim(n, "0123456789") == "" {
			a = -100
			g.lost(o, path, "is 100%%: not more than all of them")
			return &a
		}
		g.refuse(o, path, "cannot be expressed: %v", err)
		return nil
	}
	return &a
}
