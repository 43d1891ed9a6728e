package proxymity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The second part of proxymity-latency: the rules that a worker of the service network itself
// writes, by the distances that it has measured itself. An instance in London asks services
// with a replica in each city by their addresses, and the replicas by their own, in turn.

// asker is the worker, and the service, of the instance that asks.
const asker = "client"

// networked is a service with some alpha, and what became of the requests to it.
type networked struct {
	alpha    float64
	name     string
	service  netip.AddrPort
	replicas []networkedReplica
}

// networkedReplica is one of them: in which city, and how long requests to it took, in ms, through
// the service's address and straight.
type networkedReplica struct {
	place           string
	direct          netip.AddrPort
	through, beside []float64
}

func networkLatency(ctx context.Context, e *experiment.Env, places []string, rtt [][]float64) (err error) {
	alphas, rounds, settle := []float64{0, 0.5, 1}, 90, 15*time.Second
	if e.Quick {
		// Paris is the nearest, Lyon is far.
		alphas, rounds, settle = []float64{1}, 8, time.Second
	}
	use := experiment.Quickly(e.Quick, []string{"London", "Lyon", "Paris"}, places)
	n, err := networkOf(ctx, e, use)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	services := []string{bed.Asleep(asker, 1, asker, bed.Listens)}
	var all []*networked
	for _, alpha := range alphas {
		s := &networked{alpha: alpha, name: fmt.Sprintf("alpha%02.0f", 10*alpha)}
		policy := fmt.Sprintf("policy: {name: proximity, alpha: %g, beta: 0.5, decay: exponential}", alpha)
		services = append(services, bed.Asleep(s.name, len(use), "", bed.Listens, policy,
			fmt.Sprintf("anti_affinity: {labels: {is: %s}, service: [%s]}", asker, s.name)))
		all = append(all, s)
	}
	if err := n.Apply(ctx, services...); err != nil {
		return err
	}
	from, err := n.Sleepers(ctx, asker)
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	for _, s := range all {
		stop, err := s.listen(ctx, n, from[0])
		defer stop()
		if err != nil {
			return err
		}
	}
	// The rules go by distances once these are known, and are looked at every ten seconds.
	if err := distancesKnown(ctx, n, all); err != nil {
		return err
	}
	if err := experiment.Pause(ctx, settle); err != nil {
		return err
	}
	var pairs [][2]string
	for _, p := range use {
		pairs = append(pairs, [2]string{asker, strings.ToLower(p)})
	}
	asked, a, note, err := steady(func() (out []*networked, a lab.Accuracy, err error) {
		out = forgotten(all)
		meter, err := n.Measure(pairs)
		if err != nil {
			return nil, a, err
		}
		err = from[0].In(func() error { return askInTurns(ctx, e, out, rounds) })
		a, merr := meter.Stop()
		return out, a, errors.Join(err, merr)
	})
	if err != nil {
		return err
	}
	distance := map[string]float64{} // from London, in ms
	for i, p := range places {
		distance[p] = rtt[slices.Index(places, "London")][i]
	}
	first := len(e.Rows)
	for _, s := range asked {
		networkRows(e, s, distance, note)
	}
	e.Measured(first, a)
	return nil
}

// networkOf makes the site: a worker in each city, and one for who asks.
func networkOf(ctx context.Context, e *experiment.Env, places []string) (bed.Network, error) {
	const london = "London"
	f := lab.File{Links: lab.Links{Matrix: lab.Cities}, Hosts: map[string]lab.Host{
		"root": {Role: lab.RoleRoot, Location: london}, "edge": {Role: lab.RoleCluster, Location: london},
		asker: {Role: lab.RoleWorker, Location: london, Flags: bed.InNetwork(asker)},
	}}
	workers := []string{asker}
	for _, p := range places {
		name := strings.ToLower(p)
		workers = append(workers, name)
		f.Hosts[name] = lab.Host{Role: lab.RoleWorker, Location: p, Flags: bed.InNetwork(p)}
	}
	return bed.NetworkOf(ctx, e, f, workers)
}

// listen finds the replicas and answers for them, each with its city.
func (s *networked) listen(ctx context.Context, n bed.Network, from bed.Sleeper) (stop func(), err error) {
	var servers []*bed.Responder
	stop = func() {
		for _, x := range servers {
			x.Close()
		}
	}
	if s.service, err = n.Service(from, s.name); err != nil {
		return stop, err
	}
	list, err := n.Sleepers(ctx, s.name)
	if err != nil {
		return stop, err
	}
	for _, x := range list {
		place := strings.ToUpper(x.Worker[:1]) + x.Worker[1:] // workers are called after their cities
		r, err := bed.Respond(x.In, int(s.service.Port()), func() string { return place })
		if err != nil {
			return stop, fmt.Errorf("listen for %s: %w", x.ID, err)
		}
		servers = append(servers, r)
		s.replicas = append(s.replicas, networkedReplica{place: place, direct: netip.AddrPortFrom(x.Addr, s.service.Port())})
	}
	return stop, nil
}

// distancesKnown waits until the asking worker knows how far all replicas are.
func distancesKnown(ctx context.Context, n bed.Network, all []*networked) error {
	missing := ""
	known, err := experiment.Poll(ctx, time.Minute, func() (bool, error) {
		for _, s := range all {
			var r rpc.RouteReport
			if err := promises.Engine(ctx, n.Site, asker, "/v1/route?service="+bed.Deployed+"."+s.name, &r); err != nil {
				missing = err.Error()
				return false, ctx.Err()
			}
			if len(r.Endpoints) < len(s.replicas) {
				missing = fmt.Sprintf("%d of %d endpoints of %s", len(r.Endpoints), len(s.replicas), s.name)
				return false, nil
			}
			for _, x := range r.Endpoints {
				if x.Source == "" {
					missing = "the distance to " + x.Worker
					return false, nil
				}
			}
		}
		return true, nil
	})
	if err == nil && !known {
		err = fmt.Errorf("the worker does not know its distances after a minute: %s", missing)
	}
	return err
}

// forgotten are the same services, without what was measured.
func forgotten(all []*networked) (out []*networked) {
	for _, s := range all {
		again := *s
		again.replicas = nil
		for _, r := range s.replicas {
			again.replicas = append(again.replicas, networkedReplica{place: r.place, direct: r.direct})
		}
		out = append(out, &again)
	}
	return out
}

// askInTurns asks each service and, after each answer, one of its replicas. It is called in the
// network of the instance that asks.
func askInTurns(ctx context.Context, e *experiment.Env, all []*networked, rounds int) error {
	defer emul.RaiseAll(emul.MeasuringPriority)()
	runtime.GC()
	for _, s := range all {
		for _, r := range s.replicas {
			if err := bed.Warm(ctx, e, r.direct); err != nil {
				return err
			}
		}
		if err := bed.Warm(ctx, e, s.service); err != nil {
			return err
		}
	}
	for range rounds {
		for _, s := range all {
			for i := range s.replicas {
				if err := ctx.Err(); err != nil {
					return err
				}
				took, place, err := bed.Ask(s.service)
				if err != nil {
					return fmt.Errorf("the address of %s: %w", s.name, err)
				}
				k := slices.IndexFunc(s.replicas, func(r networkedReplica) bool { return r.place == place })
				if k < 0 {
					return fmt.Errorf("%s was answered by %q, which is none of its replicas", s.name, place)
				}
				s.replicas[k].through = append(s.replicas[k].through, lab.Milliseconds(took))
				r := &s.replicas[i]
				if took, _, err = bed.Ask(r.direct); err != nil {
					return fmt.Errorf("the replica of %s in %s: %w", s.name, r.place, err)
				}
				r.beside = append(r.beside, lab.Milliseconds(took))
			}
		}
	}
	return nil
}

// What is required of the rules of the service network.
const (
	// mostOverDirect: what the rules add to a request, by medians; and where most requests go
	// 0.3 ms far, of which the packet filter's part is a larger share (DESIGN.md of
	// internal/overlay has 1.18 over 1.05 where nothing is between).
	mostOverDirect = 1.05
	mostOverNear   = 1.12
	// shareNear: by how much shares may be off since the worker goes by the distances that it
	// has measured, of which a tenth may be wrong by a tenth (proxymity-accuracy); and by four
	// standard deviations of the draw on top.
	shareNear = 0.03
	sigmas    = 4
	// fewest requests by which a replica's median counts.
	fewest = 5
)

// networkRows adds what became of the requests to a service; distance is that of the cities.
func networkRows(e *experiment.Env, s *networked, distance map[string]float64, note string) {
	params := map[string]any{"alpha": s.alpha, "beta": 0.5, "decay": api.DecayExponential,
		"replicas": len(s.replicas), "by": "service network"}
	requests, configured := 0, make([]float64, len(s.replicas))
	for i, r := range s.replicas {
		requests += len(r.through)
		configured[i] = distance[r.place]
	}
	// Replica by replica, and by the same shares: a far one that was drawn once more is no
	// matter of the rules.
	through, beside, counted, sum := 0.0, 0.0, 0, 0.0
	for _, r := range s.replicas {
		for _, ms := range r.through {
			sum += ms
		}
		if len(r.through) >= fewest && len(r.beside) > 0 {
			n := len(r.through)
			through += float64(n) * experiment.Median(r.through)
			beside += float64(n) * experiment.Median(r.beside)
			counted += n
		}
	}
	want := Shares(configured, s.alpha, 0.5, api.DecayExponential)
	expected := 0.0
	for i := range want {
		expected += want[i] * configured[i]
	}
	paper := latencyCase{alpha: s.alpha, beta: 0.5, decay: api.DecayExponential, replicas: len(s.replicas)}.paper()
	e.Row(experiment.Row{Params: params, Metric: "network_latency", Unit: "ms", Paper: paper, Expected: &expected,
		Measured: sum / float64(requests),
		Note:     joinedNote("the mean; expected is without what the tunnel and the processors take", note)})
	e.Row(experiment.Row{Params: params, Metric: "through_rules", Unit: "ms", Measured: through / float64(counted)})
	e.Row(experiment.Row{Params: params, Metric: "direct", Unit: "ms", Measured: beside / float64(counted)})
	r := e.Row(experiment.Row{Params: params, Metric: "over_direct", Unit: "1", Expected: experiment.Known(1),
		Measured: experiment.Rounded(through / beside)})
	e.AtMost(r, experiment.Quickly(s.alpha == 1, mostOverNear, mostOverDirect), "what rules add")
	for i, x := range s.replicas {
		share := float64(len(x.through)) / float64(requests)
		p := experiment.With(params, "replica", x.place)
		r := e.Row(experiment.Row{Params: p, Metric: "network_share", Unit: "1", Expected: &want[i], Measured: share})
		near := shareNear + sigmas*math.Sqrt(want[i]*(1-want[i])/float64(requests))
		if !e.Quick {
			r.Short = within(share, want[i], near, fmt.Sprintf("%.3f", near))
		}
	}
}

// joinedNote adds a remark that may be "".
func joinedNote(note, more string) string {
	return strings.TrimSuffix(note+"; "+more, "; ")
}
