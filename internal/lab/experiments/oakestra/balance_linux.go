package oakestra

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Balance is the experiment oakestra-balance.
var Balance = experiment.Experiment{
	Name: "oakestra-balance", Source: "Oakestra fig. 8", Emulated: true,
	Shows: "round trip of HTTP requests from one worker to 1 to 9 replicas on others, behind one address by round robin and at their own addresses in turn, in the service network",
	Lab:   runBalance,
	Plot:  &experiment.Plot{X: "replicas", Series: "to", Metric: "rtt", Title: "round trip of a request, ms"},
}

// balanced is a service of some replicas.
type balanced struct {
	replicas int
	service  netip.AddrPort
	direct   []netip.AddrPort
	took     map[string][]float64 // by "service", "direct": ms
}

func runBalance(ctx context.Context, e *experiment.Env) (err error) {
	counts, servers, rounds := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 60
	if e.Quick {
		counts, servers, rounds = []int{1, 9}, 3, 12
	}
	workers := []string{"client"}
	for i := range servers {
		workers = append(workers, fmt.Sprint("w", i+1))
	}
	n, err := bed.NewNetwork(ctx, e, bed.Lan, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	services := []string{bed.Asleep("client", 1, "client", bed.Listens)}
	for _, c := range counts {
		name := fmt.Sprint("of", c)
		services = append(services, bed.Asleep(name, c, "", bed.Listens, "policy: round-robin", fmt.Sprintf("anti_affinity: {labels: {is: client}%s}", experiment.Quickly(e.Quick, "", ", service: ["+name+"]"))))
	}
	if err := n.Apply(ctx, services...); err != nil {
		return err
	}
	from, err := n.Sleepers(ctx, "client")
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	var all []*balanced
	for _, c := range counts {
		b, stop, err := balancedRow(ctx, n, from[0], c)
		defer stop()
		if err != nil {
			return err
		}
		all = append(all, b)
	}
	meter, err := n.Measure([][2]string{{"client", "w1"}, {"client", "w2"}})
	if err != nil {
		return err
	}
	err = from[0].In(func() error {
		defer emul.RaiseAll(emul.MeasuringPriority)()
		for _, b := range all {
			if err := bed.Warm(ctx, e, append(slices.Clone(b.direct), b.service)...); err != nil {
				return err
			}
		}
		return inTurns(ctx, all, rounds)
	})
	a, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return err
	}
	first := len(e.Rows)
	balanceRows(e, all)
	e.Measured(first, a)
	return nil
}

// balancedRow finds the addresses of a service and answers at all its replicas.
func balancedRow(ctx context.Context, n bed.Network, from bed.Sleeper, replicas int) (b *balanced, stop func(), err error) {
	var servers []*bed.Responder
	stop = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	name := fmt.Sprint("of", replicas)
	b = &balanced{replicas: replicas, took: map[string][]float64{}}
	if b.service, err = n.Service(from, name); err != nil {
		return b, stop, err
	}
	list, err := n.Sleepers(ctx, name)
	if err != nil {
		return b, stop, err
	}
	for _, s := range list {
		r, err := bed.Respond(s.In, int(b.service.Port()), func() string { return s.ID })
		if err != nil {
			return b, stop, fmt.Errorf("listen for %s: %w", s.ID, err)
		}
		servers = append(servers, r)
		b.direct = append(b.direct, netip.AddrPortFrom(s.Addr, b.service.Port()))
	}
	return b, stop, nil
}

// inTurns requests from all, a few at each before the next: what else the machine
// does meets all the same. Nothing of the first round counts.
func inTurns(ctx context.Context, all []*balanced, rounds int) error {
	for round := range rounds + 1 {
		for _, b := range all {
			for i := range 9 {
				for _, to := range []struct {
					what string
					addr netip.AddrPort
				}{{"service", b.service}, {"direct", b.direct[i%len(b.direct)]}} {
					took, err := bed.RequestOnce(to.addr)
					if err == nil {
						err = ctx.Err()
					}
					if err != nil {
						return fmt.Errorf("%s of %d replicas: %w", to.what, b.replicas, err)
					}
					if round > 0 {
						b.took[to.what] = append(b.took[to.what], lab.Milliseconds(took))
					}
				}
			}
		}
	}
	return nil
}

func balanceRows(e *experiment.Env, all []*balanced) {
	middle := func(b *balanced, what string) float64 { return experiment.Median(b.took[what]) }
	for _, b := range all {
		for _, what := range []string{"direct", "service"} {
			e.Row(experiment.Row{Params: map[string]any{"replicas": b.replicas, "to": what}, Metric: "rtt", Unit: "ms", Measured: middle(b, what)})
		}
		e.Row(experiment.Row{Params: map[string]any{"replicas": b.replicas}, Metric: "over_direct", Unit: "1", Expected: experiment.Known(1), Measured: middle(b, "service") / middle(b, "direct")})
	}
	one, nine := all[0], all[len(all)-1]
	p := map[string]any{"replicas": nine.replicas}
	e.Row(experiment.Row{Params: p, Metric: "over_one", Unit: "1", Expected: experiment.Known(1), Measured: middle(nine, "service") / middle(one, "service")})
	// Nine workers are nine tunnels whose ends sleep longer than that of one, also
	// without any balancing: what that costs is what direct requests show.
	overhead := func(b *balanced) float64 { return middle(b, "service") / middle(b, "direct") }
	r := e.Row(experiment.Row{Params: p, Metric: "overhead_over_one", Unit: "1", Expected: experiment.Known(1), Measured: overhead(nine) / overhead(one)})
	if r.Measured > 1.02 && !e.Quick {
		r.Short = "balancing nine replicas takes more than 1.02 × as long as balancing one"
	}
}
