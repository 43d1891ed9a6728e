package kubeedge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/policy/route"
)

// The pods of these experiments are synthetic: each holds one of its slots for a
// fixed time, so that dozens of them fit on two processors. The requests to them
// are real ones, over connections that are kept, and the pod of each is picked by
// Verge's policy in the sending node.
const (
	serviceTime = kubeService
	firstPort   = 9000
)

// Pods is the experiment kubeedge-pods.
var Pods = experiment.Experiment{
	Name: "kubeedge-pods", Source: "KubeEdge local scheduling fig. 5", Emulated: true,
	Shows: "throughput and response time at one node by pods and concurrency (synthetic pods of two slots, fixed service time)",
	Lab: func(ctx context.Context, e *experiment.Env) error {
		return driveAll(ctx, e, 1, func(k *kubeedge) error {
			paper := map[cell]float64{{1, 1}: 139, {2, 1}: 139, {4, 1}: 139, {1, 16}: 308, {4, 16}: 779}
			for _, pods := range []int{1, 2, 4} {
				for _, c := range experiment.Quickly(e.Quick, []int{1, 16}, []int{1, 2, 4, 8, 16}) {
					load := kubeLoad{pods: []int{pods}, clients: []int{c}, slots: 2, policy: api.PolicyRoundRobin}
					r, err := k.measure(ctx, load, paper[cell{pods, c}])
					if err != nil {
						return err
					}
					e.AtMost(r, slotsSlack**r.Expected, "what the slots and the service time permit")
				}
			}
			from := len(e.Rows)
			done, a, err := k.inTurns(ctx)
			if err != nil {
				return err
			}
			podRatios(e, func(c cell) float64 { return float64(done[c]) })
			e.Measured(from, a)
			return nil
		})
	},
	Plot: &experiment.Plot{X: "clients", Series: "pods", Metric: "throughput", Title: "requests a second at one node"},
}

// cell of kubeedge-pods.
type cell struct{ pods, clients int }

// What is required of kubeedge-pods. No pod answers more than its slots permit, but for the
// edges of the time in which answers are counted. One client has no use for a second pod: the
// paper has the same throughput with each number, which may differ here by other work of the
// machine. With sixteen, four pods answer 779 requests a second in the paper and one 308.
const (
	slotsSlack   = 1.02
	aloneLeast   = 0.75
	aloneMost    = 1 / aloneLeast
	crowdedLeast = 779.0 / 308
)

// inTurns counts answers of one pod and of four, to one client and to sixteen, in short slices that
// take turns: what else the machine does meets all of them.
func (k *kubeedge) inTurns(ctx context.Context) (done map[cell]int, a lab.Accuracy, err error) {
	meter, err := k.Measure([][2]string{{"other", k.nodes[0]}})
	if err != nil {
		return nil, a, err
	}
	done = map[cell]int{}
	slice := experiment.Quickly(k.e.Quick, 100*time.Millisecond, 500*time.Millisecond)
	for range experiment.Quickly(k.e.Quick, 2, 12) {
		for _, c := range []cell{{1, 1}, {4, 1}, {1, 16}, {4, 16}} {
			load := kubeLoad{pods: []int{c.pods}, clients: []int{c.clients}, slots: 2, policy: api.PolicyRoundRobin}
			n, _, derr := k.drive(ctx, load, k.open(load), slice)
			if derr != nil {
				_, merr := meter.Stop()
				return nil, a, errors.Join(derr, merr)
			}
			done[c] += n
		}
	}
	a, err = meter.Stop()
	return done, a, err
}

// open gives the pods of a load their slots.
func (k *kubeedge) open(load kubeLoad) (pods []*pod) {
	for i, n := range load.pods {
		for _, p := range k.pods[i*mostPods : i*mostPods+n] {
			p.room(load.slots)
			pods = append(pods, p)
		}
	}
	return pods
}

// podRatios adds the throughput of four pods over that of one.
func podRatios(e *experiment.Env, throughput func(cell) float64) {
	over := func(clients int) *experiment.Row {
		p := map[string]any{"clients": clients, "pods": 4, "over": 1}
		four, one := throughput(cell{4, clients}), throughput(cell{1, clients})
		return e.Row(experiment.Row{Params: p, Metric: "throughput_over", Unit: "1", Measured: experiment.Rounded(four / one)})
	}
	r := over(1)
	r.Paper, r.Expected = experiment.Known(1), experiment.Known(1)
	e.AtLeast(r, aloneLeast, "one client needs one pod")
	e.AtMost(r, aloneMost, "one client needs one pod")
	r = over(16)
	r.Paper, r.Expected = experiment.Known(crowdedLeast), experiment.Known(4)
	e.AtLeast(r, crowdedLeast, "the paper's")
}

// Delay is the experiment kubeedge-delay.
var Delay = experiment.Experiment{
	Name: "kubeedge-delay", Source: "KubeEdge local scheduling fig. 6", Emulated: true,
	Shows: "round robin from one node over pods spread 4-4-4, 8-3-1 and 10-1-1, by the round trip time between nodes (synthetic pods, fixed service time)",
	Lab: func(ctx context.Context, e *experiment.Env) error {
		paper := map[string]float64{"4-4-4 0": 1796, "8-3-1 0": 1677, "10-1-1 0": 1726, "4-4-4 30": 755, "8-3-1 30": 1180, "10-1-1 30": 1682}
		return driveAll(ctx, e, 3, func(k *kubeedge) error {
			for _, pods := range [][]int{{4, 4, 4}, {8, 3, 1}, {10, 1, 1}} {
				still := 0.0
				for _, ms := range experiment.Quickly(e.Quick, []int{0, 30}, []int{0, 15, 30}) {
					load := kubeLoad{pods: pods, clients: []int{16, 0, 0}, slots: 2, policy: api.PolicyRoundRobin, rtt: time.Duration(ms) * time.Millisecond}
					r, err := k.measure(ctx, load, paper[fmt.Sprintf("%s %d", experiment.Joined(pods, "-"), ms)])
					if err != nil {
						return err
					}
					if ms == 0 {
						still = r.Measured
					}
					if ms == 30 && pods[0] == 4 && r.Measured > still/2 {
						r.Short = fmt.Sprintf("round robin loses less than half of its throughput of %.0f at 30 ms", still)
					}
				}
			}
			return nil
		})
	},
	Plot: &experiment.Plot{X: "rtt_ms", Series: "pods", Metric: "throughput", Title: "round robin from node 1: requests a second"},
}

// kubeedge is some nodes with pods.
type kubeedge struct {
	*lab.Lab
	e     *experiment.Env
	nodes []string
	pods  []*pod
}

// pod is a port of a node with slots.
type pod struct {
	node, port int
	mu         sync.Mutex
	free       chan struct{}
}

// room gives the pod so many slots.
func (p *pod) room(slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = make(chan struct{}, slots)
}

// ServeHTTP holds a slot for the service time.
func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	free := p.free
	p.mu.Unlock()
	select {
	case free <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	t := time.NewTimer(serviceTime)
	<-t.C
	<-free
	w.WriteHeader(http.StatusNoContent)
}

// mostPods of one node in any of the experiments.
const mostPods = 16

// driveAll makes the nodes, with pods at each, and calls f.
func driveAll(ctx context.Context, e *experiment.Env, nodes int, f func(*kubeedge) error) (err error) {
	k := &kubeedge{e: e}
	file := lab.File{Hosts: map[string]lab.Host{}}
	for i := range nodes {
		k.nodes = append(k.nodes, fmt.Sprint("node-", i+1))
		file.Hosts[k.nodes[i]] = lab.Host{}
	}
	// With one node there is no link; another host gives the meter one.
	file.Hosts["other"] = lab.Host{}
	if k.Lab, err = e.Up(ctx, file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Down()) }()
	var servers []*http.Server
	var all sync.WaitGroup
	defer all.Wait()
	defer func() {
		for _, s := range servers {
			_ = s.Close() // connections are the lab's and end with it
		}
	}()
	for i, node := range k.nodes {
		for j := range mostPods {
			ln, err := k.Listen(node, "tcp4", fmt.Sprintf(":%d", firstPort+j))
			if err != nil {
				return fmt.Errorf("pod %d at %s: %w", j, node, err)
			}
			p := &pod{node: i, port: firstPort + j}
			k.pods = append(k.pods, p)
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: p}
			servers = append(servers, s)
			all.Go(func() { _ = s.Serve(ln) }) // it ends by Close
		}
	}
	return f(k)
}

// kubeLoad is a load and where its pods are.
type kubeLoad struct {
	pods, clients []int // of each node
	slots         int
	policy        string
	rtt           time.Duration // between nodes
}

// expected throughput of a closed loop of clients: no more than there are
// slots, each request at its node or as far away as the policy spreads it.
func (l kubeLoad) expected() float64 {
	total := 0
	for _, p := range l.pods {
		total += p
	}
	sum := 0.0
	for i, c := range l.clients {
		far, slots := float64(total-l.pods[i])/float64(total), total*l.slots
		if l.policy == api.PolicyLocal {
			far, slots = 0, l.pods[i]*l.slots
		}
		perRequest := serviceTime.Seconds() + far*l.rtt.Seconds()
		sum += min(float64(c)/perRequest, float64(slots)/serviceTime.Seconds())
	}
	return sum
}

// measure sends requests for some time and adds the rows; it returns that of the
// throughput.
func (k *kubeedge) measure(ctx context.Context, load kubeLoad, paper float64) (*experiment.Row, error) {
	rtt := api.Duration(load.rtt)
	var pairs [][2]string
	for i, a := range append([]string{"other"}, k.nodes...) {
		for _, b := range k.nodes[i:] {
			if _, err := k.Set(a, b, lab.LinkSpec{RTT: &rtt}, false); err != nil {
				return nil, err
			}
			pairs = append(pairs, [2]string{a, b})
		}
	}
	pods := k.open(load)
	meter, err := k.Measure(pairs)
	if err != nil {
		return nil, err
	}
	window := experiment.Quickly(k.e.Quick, 400*time.Millisecond, 5*time.Second)
	done, mean, err := k.drive(ctx, load, pods, window)
	a, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return nil, err
	}
	params := map[string]any{
		"pods": experiment.Joined(load.pods, "-"), "load": experiment.Joined(load.clients, ":"), "policy": load.policy, "slots": load.slots, "rtt_ms": lab.Milliseconds(load.rtt),
	}
	if len(load.clients) == 1 {
		params["pods"], params["clients"] = load.pods[0], load.clients[0]
	}
	from := len(k.e.Rows)
	k.e.Row(experiment.Row{Params: params, Metric: "response_time", Unit: "ms", Measured: lab.Milliseconds(mean)})
	r := k.e.Row(experiment.Row{Params: params, Metric: "throughput", Unit: "1/s", Expected: experiment.Known(load.expected()), Measured: math.Round(float64(done)/window.Seconds()*10) / 10})
	if paper > 0 {
		r.Paper = &paper
	}
	k.e.Measured(from, a)
	return r, nil
}

// drive sends requests from all clients for a while, and returns how many were
// answered within it and their mean response time.
func (k *kubeedge) drive(ctx context.Context, load kubeLoad, pods []*pod, window time.Duration) (done int, mean time.Duration, err error) {
	var (
		mu   sync.Mutex
		sum  time.Duration
		errs []error
		all  sync.WaitGroup
	)
	// Connections are made before anything is counted, however long that takes.
	var (
		connected  sync.WaitGroup
		begin, end time.Time
	)
	start := make(chan struct{})
	routers := make([]*router, len(load.clients))
	for node := range load.clients {
		if routers[node], err = newRouter(load.policy, pods, node, k.e.Seed); err != nil {
			return 0, 0, err
		}
	}
	for node, clients := range load.clients {
		if clients == 0 {
			continue
		}
		router := routers[node]
		transport := &http.Transport{
			MaxIdleConnsPerHost: clients,
			DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return k.Dial(ctx, k.nodes[node], network, addr)
			},
		}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: time.Minute}
		ask := func() error {
			p := pods[router.pick()]
			return get(ctx, client, fmt.Sprintf("http://%s:%d/", k.Address(k.nodes[p.node]), p.port))
		}
		for range clients {
			connected.Add(1)
			all.Go(func() {
				err := ask()
				connected.Done()
				if err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					return
				}
				<-start
				for time.Now().Before(end) && ctx.Err() == nil {
					at := time.Now()
					err := ask()
					took := time.Since(at)
					mu.Lock()
					if now := at.Add(took); err == nil && now.After(begin) && now.Before(end) {
						done++
						sum += took
					} else if err != nil {
						errs = append(errs, err)
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	connected.Wait()
	// Some time for all to be as they are in the long run.
	begin = time.Now().Add(100*time.Millisecond + 4*load.rtt)
	end = begin.Add(window)
	close(start)
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	if done == 0 {
		return 0, 0, errors.New("no request was answered")
	}
	return done, sum / time.Duration(done), ctx.Err()
}

func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// router of a node: Verge's policy over the pods.
type router struct {
	mu     sync.Mutex
	policy route.Policy
	view   route.View
}

func newRouter(policy string, pods []*pod, node int, seed uint64) (*router, error) {
	p := api.Policy{Name: policy}
	if policy == api.PolicyLocal {
		p.Fallback = api.PolicyRoundRobin
	}
	made, err := route.New(p, seed+uint64(node))
	if err != nil {
		return nil, err
	}
	var list []route.Endpoint
	for i, p := range pods {
		list = append(list, route.Endpoint{ID: fmt.Sprint("pod-", i), Ready: true, Local: p.node == node, Ordinal: i})
	}
	return &router{policy: made, view: route.NewView(seed+uint64(node), list)}, nil
}

// pick returns the index of the pod for one request.
func (r *router) pick() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, _ := r.policy.Pick(r.view, route.Request{}) // all are ready
	return r.view.Endpoints[i].Ordinal
}
