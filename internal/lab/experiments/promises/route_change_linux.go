package promises

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/unixsock"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// RouteChange is the experiment route-change.
var RouteChange = experiment.Experiment{
	Name: "route-change", Source: "none: a promise of Verge", Emulated: true,
	Shows: "time from the death of an endpoint (its process, its whole worker, the worker's links) until it is out of the routes and the kernel's rules of a worker in the same and in another cluster",
	Lab:   runRouteChange,
}

// The hosts: instances die at the victim; beside is in its cluster, away in another,
// whose cluster is as far from the root as the victim's.
const (
	victim, beside, away = "victim", "beside", "away"
	uplinkRTT            = 20 * time.Millisecond
	fastReports          = time.Second
	slowReports          = 10 * time.Second
	// What is promised of the death of an instance, for away beside the latency of
	// the links up and down.
	nearWithin, awayWithin = 200 * time.Millisecond, time.Second
)

// observers and how far each is from where the death is decided about.
var observers = []struct {
	host, where string
	within      time.Duration
}{{beside, "same cluster", nearWithin}, {away, "other cluster", awayWithin + 2*uplinkRTT}}

func runRouteChange(ctx context.Context, e *experiment.Env) (err error) {
	interval := experiment.Quickly(e.Quick, fastReports, slowReports)
	s, err := newPair(ctx, e, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	meter, err := s.Measure([][2]string{{"edge", victim}, {"edge", beside}, {"root", "edge"}, {"root", "other"}})
	if err != nil {
		return err
	}
	from := len(e.Rows)
	err = changes(ctx, e, s, interval)
	a, merr := meter.Stop()
	e.Measured(from, a)
	return errors.Join(err, merr)
}

// newPair makes two sites with an application over both, of which as many instances
// as are to die are at the victim.
func newPair(ctx context.Context, e *experiment.Env, interval time.Duration) (_ *bed.Site, err error) {
	rtt, up := api.Duration(time.Millisecond), api.Duration(uplinkRTT)
	worker := func(cluster string, labels ...string) lab.Host {
		flags := []string{"--network", "auto"}
		for _, l := range labels {
			flags = append(flags, "--label", l)
		}
		return lab.Host{Role: lab.RoleWorker, Cluster: cluster, Flags: flags}
	}
	flags := []string{"--interval", interval.String()}
	f := lab.File{
		Links: lab.Links{
			Default: lab.LinkSpec{RTT: &rtt},
			Between: []lab.Pair{{Hosts: []string{"root", "edge"}, LinkSpec: lab.LinkSpec{RTT: &up}}, {Hosts: []string{"root", "other"}, LinkSpec: lab.LinkSpec{RTT: &up}}},
		},
		Hosts: map[string]lab.Host{
			"root": {Role: lab.RoleRoot}, "edge": {Role: lab.RoleCluster, Flags: flags}, "other": {Role: lab.RoleCluster, Flags: flags},
			victim: worker("edge", "runs=main"), beside: worker("edge", "runs=main", "is="+beside), away: worker("other", "is="+away),
		},
	}
	s := &bed.Site{}
	if s.Lab, err = e.Up(ctx, f); err != nil {
		return nil, err
	}
	if s.API, err = s.Client("root"); err != nil {
		return nil, errors.Join(err, s.Down())
	}
	return s, nil
}

// deaths of single instances that are measured.
func deaths(quick bool) int { return experiment.Quickly(quick, 3, 15) }

func changes(ctx context.Context, e *experiment.Env, s *bed.Site, interval time.Duration) error {
	n := deaths(e.Quick)
	all := 2 * (n + 1)
	if err := applyPair(ctx, s, all); err != nil {
		return err
	}
	ids, err := seen(ctx, s, all)
	if err != nil {
		return err
	}
	n = min(n, len(ids)-1)
	took := map[string][]float64{}
	for _, id := range ids[:n] {
		pid, err := pidOf(ctx, s, id)
		if err != nil {
			return err
		}
		t, err := until(ctx, s, 10*time.Second, []string{id}, func() error { return unix.Kill(pid, unix.SIGKILL) })
		if err != nil {
			return fmt.Errorf("after the death of %s: %w", id, err)
		}
		for metric, ms := range t {
			took[metric] = append(took[metric], ms)
		}
	}
	died(e, "instance", took, true, 0)

	if err := engineDies(ctx, e, s, all-n); err != nil {
		return err
	}
	if !e.Quick { // it is mostly waiting
		if err := linksDie(ctx, e, s, ids[n:], interval); err != nil {
			return err
		}
	}
	if ids, err = seen(ctx, s, all-n); err != nil {
		return err
	}
	// All of the worker at once: what it has open the kernel closes.
	pids, err := s.Processes(victim)
	if err != nil {
		return err
	}
	t, err := until(ctx, s, time.Minute, ids, func() error { return killAll(pids) })
	if err != nil {
		return fmt.Errorf("after the death of the worker: %w", err)
	}
	died(e, "worker", one(t), true, 0)
	return nil
}

// engineDies kills the victim's engine alone. Its instances go on, and their routes
// are to stay; the router through which others may reach them is away meanwhile.
func engineDies(ctx context.Context, e *experiment.Env, s *bed.Site, routed int) error {
	var info engineapi.EngineState
	if err := Engine(ctx, s, victim, "/v1/state", &info); err != nil {
		return err
	}
	begin := time.Now()
	if err := unix.Kill(info.Info.PID, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill the engine: %w", err)
	}
	back, err := experiment.Poll(ctx, time.Minute, func() (bool, error) {
		var now engineapi.EngineState
		err := Engine(ctx, s, victim, "/v1/state", &now)
		return err == nil && now.Engine != info.Engine && len(now.Changed) > 0, nil
	})
	if err == nil && !back {
		err = errors.New("the engine is not started again")
	}
	if err != nil {
		return err
	}
	p := map[string]any{"died": "engine", "seen_from": "its worker"}
	e.Row(experiment.Row{Params: p, Metric: "engine_back", Unit: "ms", Measured: lab.Milliseconds(time.Since(begin))})
	p = map[string]any{"died": "engine", "seen_from": "same cluster"}
	r := e.Row(experiment.Row{Params: p, Metric: "endpoints_kept", Unit: "1", Expected: experiment.Known(float64(routed)), Measured: float64(len(listed(ctx, s, beside)))})
	if int(r.Measured) < routed {
		r.Short = "instances that go on are not routed to"
	}
	return nil
}

// linksDie cuts the victim off and heals it. Until it is missed nobody can know.
func linksDie(ctx context.Context, e *experiment.Env, s *bed.Site, ids []string, interval time.Duration) error {
	missed := suspicion.SilenceLimit(interval) + loop.Tick
	t, err := until(ctx, s, missed+time.Minute, ids, func() error { return cut(s, victim, true) })
	if err != nil {
		return fmt.Errorf("after the links of the worker were cut: %w", err)
	}
	died(e, "links", one(t), false, missed)
	return cut(s, victim, false)
}

func one(t map[string]float64) map[string][]float64 {
	out := map[string][]float64{}
	for k, v := range t {
		out[k] = []float64{v}
	}
	return out
}

// died adds the rows about one kind of death: the median and the longest of what was
// measured. promised: there is a promise about it; known is how long it takes
// until anybody knows at all.
func died(e *experiment.Env, what string, took map[string][]float64, promised bool, known time.Duration) {
	for _, o := range observers {
		for _, where := range []string{"routes", "rules"} {
			all := took[o.host+" "+where]
			if len(all) == 0 {
				continue // it has no rules: it is not in the service network
			}
			slices.Sort(all)
			p := map[string]any{"died": what, "seen_from": o.where, "in": where}
			within := lab.Milliseconds(known + o.within)
			e.Row(experiment.Row{Params: p, Metric: "route_change", Unit: "ms", Expected: &within, Measured: all[len(all)/2]})
			if len(all) == 1 {
				if promised && all[0] > within {
					e.Rows[len(e.Rows)-1].Short = fmt.Sprintf("it takes longer than %.0f ms", within)
				}
				continue
			}
			r := e.Row(experiment.Row{Params: p, Metric: "route_change_max", Unit: "ms", Expected: &within, Measured: all[len(all)-1]})
			if promised && r.Measured > within {
				r.Short = fmt.Sprintf("it takes longer than %.0f ms", within)
			}
		}
	}
}

// applyPair applies the application: instances that die, and one at each observer, since a
// worker makes rules for the applications that it has instances of.
func applyPair(ctx context.Context, s *bed.Site, instances int) error {
	text := fmt.Sprintf(`application: pair
services:
  main:
    command: [sleep, "100000"]
    replicas: %d
    ports: [{name: main}]
    affinity: {labels: {runs: main}}
    readiness: {exec: {command: ["true"]}, interval: 1h}
    restart: {delay: 1h, max_delay: 1h}
    stop: {signal: KILL}
`, instances)
	for _, o := range observers {
		text += fmt.Sprintf("  %[1]s:\n    command: [sleep, \"100000\"]\n    affinity: {labels: {is: %[1]s}}\n    stop: {signal: KILL}\n", o.host)
	}
	if _, err := s.API.Applications.Apply(ctx, []byte(text), false); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return nil
}

// seen waits until all observers route to so many endpoints, and returns those at
// the victim.
func seen(ctx context.Context, s *bed.Site, n int) (ids []string, err error) {
	for _, o := range observers {
		got, err := experiment.Poll(ctx, time.Minute, func() (bool, error) {
			list := routed(ctx, s, o.host)
			if o.host == beside {
				ids = nil // it knows the names of its siblings
				for _, x := range list {
					if x.Worker == victim {
						ids = append(ids, x.Instance)
					}
				}
			}
			if len(list) != n {
				return false, nil
			}
			rules, err := ruled(s, o.host)
			return o.host != beside || rules < 0 || rules == n, err
		})
		if err != nil {
			return nil, err
		}
		if !got {
			rules, err := ruled(s, o.host)
			return nil, errors.Join(fmt.Errorf("%s routes to %d endpoints, and has %d in its rules, not %d", o.host, len(routed(ctx, s, o.host)), rules, n), err)
		}
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no instance is on %s", victim)
	}
	return ids, nil
}

// until does something and measures how long it takes until endpoints are out of the
// routes and out of the rules, by observer.
func until(ctx context.Context, s *bed.Site, timeout time.Duration, ids []string, do func() error) (map[string]float64, error) {
	want := map[string]int{} // in the rules
	for _, o := range observers {
		rules, err := ruled(s, o.host)
		if err != nil {
			return nil, err
		}
		want[o.host] = -1
		// Where endpoints are reached through the router they are not in the rules.
		if rules == len(routed(ctx, s, o.host)) {
			want[o.host] = rules - len(ids)
		}
	}
	begin := time.Now()
	if err := do(); err != nil {
		return nil, err
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	took, errs := map[string]float64{}, []error(nil)
	for _, o := range observers {
		all.Go(func() {
			err := func() error {
				out, err := experiment.Poll(ctx, timeout, func() (bool, error) {
					return !slices.ContainsFunc(routed(ctx, s, o.host), func(x rpc.RouteEndpoint) bool { return slices.Contains(ids, x.Instance) }), nil
				})
				if err == nil && !out {
					err = fmt.Errorf("%s routes to %v after %v", o.host, ids, timeout)
				}
				if err != nil {
					return err
				}
				mu.Lock()
				took[o.host+" routes"] = lab.Milliseconds(time.Since(begin))
				mu.Unlock()
				if want[o.host] < 0 {
					return nil
				}
				// Looking at rules is work: that is not begun before they may be right. On a
				// busy machine others may have been put in their place by then.
				if out, err = experiment.Poll(ctx, timeout, func() (bool, error) {
					n, err := ruled(s, o.host)
					now := len(routed(ctx, s, o.host))
					return n <= want[o.host] || now >= want[o.host]+len(ids) && n == now, err
				}); err == nil && !out {
					err = fmt.Errorf("%s has rules to %v after %v", o.host, ids, timeout)
				}
				mu.Lock()
				took[o.host+" rules"] = lab.Milliseconds(time.Since(begin))
				mu.Unlock()
				return err
			}()
			if err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took, errors.Join(errs...)
}

// routed are the endpoints of the service that a worker sends new connections to.
func routed(ctx context.Context, s *bed.Site, host string) []rpc.RouteEndpoint {
	return slices.DeleteFunc(listed(ctx, s, host), func(x rpc.RouteEndpoint) bool { return x.State != "ok" })
}

// listed is the route, with those that a router does not ask at the moment, since it could
// not reach them just now.
func listed(ctx context.Context, s *bed.Site, host string) []rpc.RouteEndpoint {
	var r rpc.RouteReport
	if err := Engine(ctx, s, host, "/v1/route?service=pair.main", &r); err != nil {
		return nil // it has no route yet, or has just been started
	}
	return slices.DeleteFunc(r.Endpoints, func(x rpc.RouteEndpoint) bool { return x.State == "suspect" })
}

// Engine asks that of a worker.
func Engine(ctx context.Context, s *bed.Site, host, what string, out any) (err error) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return unixsock.Dial(ctx, filepath.Join(s.Dir(host), engineapi.EngineSocket))
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://engine"+what, nil)
	if err != nil {
		return err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the engine of %s: %s", host, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// numbers finds the lines by which the kernel chooses among endpoints.
var numbers = regexp.MustCompile(`dnat ip6 to .*numgen \S+ mod (\d+) map`)

// ruled counts the endpoints in the rules of a worker, -1 if it has no rules.
func ruled(s *bed.Site, host string) (n int, err error) {
	var out []byte
	err = s.Do(host, func() (err error) {
		out, err = exec.Command("nft", "list", "ruleset").Output()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("the rules of %s: %w", host, err)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return -1, nil
	}
	// One number for each endpoint, where all are reached at their own addresses.
	for _, m := range numbers.FindAllSubmatch(out, -1) {
		of, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return 0, fmt.Errorf("the rules of %s: %w", host, err)
		}
		n += of
	}
	return n, nil
}

// pidOf an instance at the victim.
func pidOf(ctx context.Context, s *bed.Site, id string) (int, error) {
	var st engineapi.EngineState
	if err := Engine(ctx, s, victim, "/v1/state", &st); err != nil {
		return 0, err
	}
	for _, x := range st.Changed {
		if x.ID == id && x.PID > 0 {
			return x.PID, nil
		}
	}
	return 0, fmt.Errorf("there is no process of %s", id)
}

// killAll ends processes, the first ones first: a worker's agent would start its
// engine again.
func killAll(pids []int) error {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// cut all links of a host, or heals them.
func cut(s *bed.Site, host string, cut bool) error {
	for other := range s.File().Hosts {
		if other == host {
			continue
		}
		if _, err := s.Set(host, other, lab.LinkSpec{Cut: &cut}, false); err != nil {
			return err
		}
	}
	return nil
}
