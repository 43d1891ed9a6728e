package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// maxScaleSamples is of how many services there are figures, those first that are
// asked for most: what more would say is in "verge explain scale".
const maxScaleSamples = 100

// ScaleSamples are the figures of services whose number the requests decide and that
// somebody asks for. The caller has the model.
func ScaleSamples(c *core.Core) (out []obs.Sample) {
	keys := records.SortedKeys(autoscale.Memory(c.M).Wants)
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(autoscale.Memory(c.M).Wants[b].Decision.Rate, autoscale.Memory(c.M).Wants[a].Decision.Rate)
	})
	keys = keys[:min(len(keys), maxScaleSamples)]
	placed, awake := map[string]int{}, map[string]int{}
	for _, i := range c.M.Insts {
		if !i.Draining && (i.State == wire.Running || i.State == wire.WorkerScheduled) {
			placed[i.App+"."+i.Service]++
			if !state.Asleep(i) {
				awake[i.App+"."+i.Service]++
			}
		}
	}
	for _, key := range keys {
		d, short := autoscale.Memory(c.M).Wants[key].Decision, autoscale.Short(c.M, key)
		app, service, _ := strings.Cut(key, ".")
		of := [][2]string{{"application", app}, {"service", service}}
		for _, x := range []struct {
			name, help string
			value      float64
		}{
			{"instances_wanted", "Instances that the requests which enter at this cluster ask for.", float64(d.Want)},
			{"instances_max", "The most of them that there may be.", float64(d.Max)},
			{"instances_placed", "Instances of the service that are placed here.", float64(placed[key])},
			{"instances_awake", "Instances of the service that run here.", float64(awake[key])},
			{"instances_short", "Instances that are asked for here and have no place here.",
				float64(short.Short + short.Unmet)},
			{"instances_for_others", "Instances that run here for requests which enter at other clusters.",
				float64(short.Extra)},
			{"requests_per_second", "Requests for the service that enter at this cluster.", d.Rate},
			{"requests_predicted_per_second", "What is expected when an instance that is started now answers.",
				d.Predicted},
			{"requests_refused_per_second",
				"Requests that were turned away: they could not be answered within the objective, or too many waited.", d.Refused},
			{"requests_waiting", "Requests in queues.", float64(d.Waiting)},
			{"instance_capacity_per_second", "What one instance can do, 0 where it is not known.", d.RPS},
			{"instance_exec_seconds", "How long an instance works on a request, 0 where it is not known.",
				d.Exec.Std().Seconds()},
			{"objective_seconds", "Within what time requests are to be answered, 0 where the service has no " +
				"objective.", d.SLO.Std().Seconds()},
		} {
			out = append(out, obs.Sample{Name: "verge_scale_" + x.name, Help: x.help, Labels: of, Value: x.value})
		}
	}
	return out
}
