package experiments

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
)

var oakestraBalance = Experiment{
	Name: "oakestra-balance", Source: "Oakestra fig. 8", Emulated: true,
	Shows: "round trip of HTTP requests from one worker to 1 to 9 replicas on others, behind one address by round robin and at their own addresses in turn, in the service network",
	run:   runBalance,
	plot:  &plot{x: "replicas", series: "to", metric: "rtt", title: "round trip of a request, ms"},
}

// lan is the round trip between workers of one place.
const lan = time.Millisecond

// balanced is a service of some replicas.
type balanced struct {
	replicas int
	service  netip.AddrPort
	direct   []netip.AddrPort
	took     map[string][]float64 // by "service", "direct": ms
}

func runBalance(ctx context.Context, e *env) (err error) {
	counts, servers, rounds := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}, 9, 60
	if e.Quick {
		counts, servers, rounds = []int{1, 9}, 3, 12
	}
	workers := []string{"client"}
	for i := range servers {
		workers = append(workers, fmt.Sprint("w", i+1))
	}
	n, err := e.newNetwork(ctx, lan, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down()) }()
	services := []string{asleep("client", 1, "client", listens)}
	for _, c := range counts {
		name := fmt.Sprint("of", c)
		services = append(services, asleep(name, c, "", listens, "policy: round-robin", fmt.Sprintf("anti_affinity: {labels: {is: client}%s}", quickly(e.Quick, "", ", service: ["+name+"]"))))
	}
	if err := n.apply(ctx, services...); err != nil {
		return err
	}
	from, err := n.sleepers(ctx, "client")
	if err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(64))
	var all []*balanced
	for _, c := range counts {
		b, stop, err := n.balanced(ctx, from[0], c)
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
	err = from[0].in(func() error {
		defer emul.RaiseAll(emul.MeasuringPriority)()
		if err := e.warm(ctx, all); err != nil {
			return err
		}
		return inTurns(ctx, all, rounds)
	})
	a, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return err
	}
	first := len(e.rows)
	e.balanceRows(all)
	e.measured(first, a)
	return nil
}

// balanced finds the addresses of a service and answers at all its replicas.
func (n network) balanced(ctx context.Context, from sleeper, replicas int) (b *balanced, stop func(), err error) {
	var servers []*responder
	stop = func() {
		for _, s := range servers {
			s.close()
		}
	}
	name := fmt.Sprint("of", replicas)
	b = &balanced{replicas: replicas, took: map[string][]float64{}}
	if b.service, err = n.service(from, name); err != nil {
		return b, stop, err
	}
	list, err := n.sleepers(ctx, name)
	if err != nil {
		return b, stop, err
	}
	for _, s := range list {
		r, err := respond(s.in, int(b.service.Port()), func() string { return s.id })
		if err != nil {
			return b, stop, fmt.Errorf("listen for %s: %w", s.id, err)
		}
		servers = append(servers, r)
		b.direct = append(b.direct, netip.AddrPortFrom(s.addr, b.service.Port()))
	}
	return b, stop, nil
}

// warm waits until there are paths to all, which first requests make, and says which
// of these failed.
func (e *env) warm(ctx context.Context, all []*balanced) error {
	for _, b := range all {
		for _, to := range append(slices.Clone(b.direct), b.service) {
			good := 0
			done, err := poll(ctx, 20*time.Second, func() (bool, error) {
				if _, err := requestOnce(to); err != nil {
					e.Say("%s: the first requests to %s: %v", e.name, to, err)
					good = 0
					return false, nil
				}
				good++
				return good == 2, nil
			})
			if err == nil && !done {
				err = fmt.Errorf("%s does not answer", to)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
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
					took, err := requestOnce(to.addr)
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

func (e *env) balanceRows(all []*balanced) {
	middle := func(b *balanced, what string) float64 { return median(b.took[what]) }
	for _, b := range all {
		for _, what := range []string{"direct", "service"} {
			e.row(Row{Params: map[string]any{"replicas": b.replicas, "to": what}, Metric: "rtt", Unit: "ms", Measured: middle(b, what)})
		}
		e.row(Row{Params: map[string]any{"replicas": b.replicas}, Metric: "over_direct", Unit: "1", Expected: known(1), Measured: middle(b, "service") / middle(b, "direct")})
	}
	one, nine := all[0], all[len(all)-1]
	p := map[string]any{"replicas": nine.replicas}
	e.row(Row{Params: p, Metric: "over_one", Unit: "1", Expected: known(1), Measured: middle(nine, "service") / middle(one, "service")})
	// Nine workers are nine tunnels whose ends sleep longer than that of one, also
	// without any balancing: what that costs is what direct requests show.
	overhead := func(b *balanced) float64 { return middle(b, "service") / middle(b, "direct") }
	r := e.row(Row{Params: p, Metric: "overhead_over_one", Unit: "1", Expected: known(1), Measured: overhead(nine) / overhead(one)})
	if r.Measured > 1.02 && !e.Quick {
		r.Short = "balancing nine replicas takes more than 1.02 × as long as balancing one"
	}
}

func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}
