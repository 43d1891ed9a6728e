package proxymity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Accuracy is the experiment proxymity-accuracy.
var Accuracy = experiment.Experiment{
	Name: "proxymity-accuracy", Source: "Proxy-mity fig. 4", Emulated: true,
	Shows: "how wrong a fresh worker's distances to eleven others are after its start, relative to what is configured: those that routes go by, and those by coordinates alone (three workers, one after the other, in the matrix of cities)",
	Lab:   runAccuracy,
	Plot:  &experiment.Plot{X: "after_s", Series: "by", Metric: "error_median", Title: "relative error of distances, median"},
}

// Within what a fresh worker's distances must be after so long.
const (
	freshAfter  = 20.0 // s
	freshMedian = 0.03
	freshP90    = 0.10
)

func runAccuracy(ctx context.Context, e *experiment.Env) (err error) {
	places, _, err := cities()
	if err != nil {
		return err
	}
	joinAt, after, settle := []string{"London", "Lyon", "Copenhagen"}, []float64{2, 3, 5, 10, 15, freshAfter, 30}, 30*time.Second
	if e.Quick {
		places, joinAt, after, settle = []string{"Amsterdam", "Paris", "Edinburgh"}, []string{"London"}, []float64{2, 4}, time.Second
	}
	f := lab.File{Links: lab.Links{Matrix: lab.Cities}, Hosts: map[string]lab.Host{
		"root": {Role: lab.RoleRoot, Location: "London"}, "edge": {Role: lab.RoleCluster, Location: "London"},
	}}
	var workers, fresh []string
	for _, p := range places {
		name := strings.ToLower(p)
		workers = append(workers, name)
		f.Hosts[name] = lab.Host{Role: lab.RoleWorker, Location: p, Flags: bed.InNetwork("old")}
	}
	for i, p := range joinAt {
		name := fmt.Sprint("fresh-", i+1)
		fresh = append(fresh, name)
		f.Hosts[name] = lab.Host{Role: lab.RoleWorker, Location: p, Flags: bed.InNetwork(name), Later: true}
	}
	n, err := bed.NetworkOf(ctx, e, f, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	services := []string{bed.Asleep("web", len(workers), "old", bed.Listens, "policy: closest", "anti_affinity: {service: [web]}")}
	if err := n.Apply(ctx, services...); err != nil {
		return err
	}
	// The others know each other by then.
	if err := experiment.Pause(ctx, settle); err != nil {
		return err
	}
	var pairs [][2]string
	for _, w := range workers {
		pairs = append(pairs, [2]string{"edge", w})
	}
	meter, err := n.Measure(pairs)
	if err != nil {
		return err
	}
	wrong := map[float64]*errorsOf{}
	for _, name := range fresh {
		services = append(services, bed.Asleep(name, 1, name))
		if err = joins(ctx, n, name, services, after, wrong); err != nil {
			break
		}
	}
	a, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return err
	}
	first := len(e.Rows)
	for _, s := range after {
		accuracyRows(e, s, wrong[s], len(workers)*len(fresh))
	}
	e.Measured(first, a)
	return nil
}

// errorsOf distances: relative.
type errorsOf struct{ used, coordinates []float64 }

// joins starts a worker with a user of the service, and notes how wrong its distances
// are after each of some times.
func joins(ctx context.Context, n bed.Network, name string, services []string, after []float64, wrong map[float64]*errorsOf) error {
	begin := time.Now()
	if err := n.Join(ctx, name); err != nil {
		return err
	}
	if _, err := n.API.Applications.Apply(ctx, []byte("application: "+bed.Deployed+"\nservices:\n"+strings.Join(services, "")), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	st, err := n.Stats()
	if err != nil {
		return err
	}
	for _, s := range after {
		if err := experiment.Pause(ctx, time.Until(begin.Add(time.Duration(s*float64(time.Second))))); err != nil {
			return err
		}
		if wrong[s] == nil {
			wrong[s] = &errorsOf{}
		}
		var r rpc.RouteReport
		if err := promises.Engine(ctx, n.Site, name, "/v1/route?service="+bed.Deployed+".web", &r); err != nil {
			continue // it has no route yet; that too few were known then is said in the rows
		}
		for _, x := range r.Endpoints {
			set := n.RTT(st, name, x.Worker)
			relative := func(d time.Duration) float64 { return math.Abs(float64(d-set)) / float64(set) }
			if x.Source != "" {
				wrong[s].used = append(wrong[s].used, relative(x.RTT.Std()))
			}
			if x.Estimate > 0 {
				wrong[s].coordinates = append(wrong[s].coordinates, relative(x.Estimate.Std()))
			}
		}
	}
	return nil
}

func accuracyRows(e *experiment.Env, after float64, w *errorsOf, all int) {
	for _, x := range []struct {
		by    string
		list  []float64
		paper *float64
	}{{"routes", w.used, nil}, {"coordinates", w.coordinates, experiment.Quickly(after >= freshAfter, experiment.Known(0.2), nil)}} {
		p := map[string]any{"after_s": after, "by": x.by}
		e.Row(experiment.Row{Params: p, Metric: "known_share", Unit: "1", Expected: experiment.Known(1), Measured: float64(len(x.list)) / float64(all)})
		if len(x.list) == 0 {
			continue
		}
		slices.Sort(x.list)
		middle, p90 := x.list[len(x.list)/2], x.list[int(0.9*float64(len(x.list)-1))]
		m := e.Row(experiment.Row{Params: p, Metric: "error_median", Unit: "1", Paper: x.paper, Measured: middle})
		must := x.by == "routes" && after == freshAfter
		if must && (middle > freshMedian || len(x.list) < all) {
			m.Short = fmt.Sprintf("half of the distances are wrong by more than %g, or some are not known", freshMedian)
		}
		m = e.Row(experiment.Row{Params: p, Metric: "error_p90", Unit: "1", Measured: p90})
		if must && p90 > freshP90 {
			m.Short = fmt.Sprintf("a tenth of the distances are wrong by more than %g", freshP90)
		}
	}
}
