package study

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The study's testbed in the lab: a root, a cluster, the study's nodes as workers with
// their instances, three of which are gateways, and clients at the edge. All is real
// but the work of a pod, which waits as long as that node of the study computes.
//
// The images are in the object store of the cluster, whose host is where the data are:
// its links are those of that tier. Each request is for an image of its own, as from a
// camera, so that workers keep none that is asked for again.
//
// Time runs faster than in the study: what takes time there takes a part of it here,
// work and distances alike, and lines carry as many times more. Throughput is that
// many times higher.
const (
	studyHub      = "hub"
	studyClient   = "client"
	studyPort     = "8480"
	studyApp      = "study"
	studyPatience = time.Minute
)

// studyGateways are the workers that are one, by tier.
var studyGateways = map[string]string{"edge": "edge-vm-1", "fog": "fog-1", "cloud": "cloud-1"}

// studyBed is the testbed at work.
type studyBed struct {
	*lab.Lab
	e         *experiment.Env
	speed     float64       // times faster than the study
	window    time.Duration // of a measurement
	nodes     []string
	root, hub *client.Client
	on        map[string]int // pods by node
	open      string         // the one node that takes pods; "": none
	images    int            // that are in the store
	next      atomic.Int64   // image
}

// studyInLab runs a sweep in the lab.
func studyInLab(ctx context.Context, e *experiment.Env, sweep func(context.Context, *experiment.Env, studyForm) error) (err error) {
	// A quick run has two pods at one node of each tier.
	quick := []string{"edge-vm-1", "fog-1", "cloud-1", "edge-vm-1", "fog-1", "cloud-1"}
	b := &studyBed{e: e, speed: 4, window: 8 * time.Second, nodes: slices.Sorted(maps.Keys(studyNodes)), on: map[string]int{}}
	form := studyForm{placements: studyPlacements, run: b.measure, least: 0.9, cases: func(placement string) []studyCase {
		return []studyCase{{placement: placement, iteration: 4}, {placement: placement, iteration: 8}, {placement: placement, iteration: 12}}
	}}
	if e.Quick {
		b.speed, b.window, b.nodes = 8, 1200*time.Millisecond, []string{"cloud-1", "edge-vm-1", "fog-1"}
		form.placements, form.few = []string{"even"}, true
		form.cases = func(placement string) []studyCase { return []studyCase{{placement: placement, pods: quick}} }
	}
	if b.Lab, err = e.Up(ctx, b.file()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Down()) }()
	if b.root, err = b.Client("root"); err != nil {
		return err
	}
	if b.hub, err = b.Client(studyHub); err != nil {
		return err
	}
	for _, node := range b.nodes {
		if _, err := b.hub.Workers.Cordon(ctx, studyHub, node, rpc.CordonRequest{Reason: "pods are placed node by node"}); err != nil {
			return fmt.Errorf("cordon %s: %w", node, err)
		}
	}
	// A link without queues.
	meter, err := b.Measure([][2]string{{"root", "fog-1"}})
	if err != nil {
		return err
	}
	err = sweep(ctx, e, form)
	a, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return err
	}
	e.Measured(0, a)
	return nil
}

// tier of a host; the cluster's is that of the data.
func (b *studyBed) tier(host, source string) string {
	switch host {
	case studyHub:
		return source
	case studyClient:
		return "edge"
	case "root":
		return "fog"
	}
	return studyTier(host)
}

// rtt between tiers here.
func (b *studyBed) rtt(a, c string) *api.Duration {
	d := api.Duration(float64(studyRTT(a, c)) / b.speed)
	return &d
}

// rate in bits per second here, of bytes per second in the study.
func (b *studyBed) rate(bytes float64) api.Bitrate { return api.Bitrate(8 * bytes * b.speed) }

func (b *studyBed) file() lab.File {
	f := lab.File{Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}, studyHub: {Role: lab.RoleCluster}, studyClient: {}}}
	for _, node := range b.nodes {
		h := lab.Host{Role: lab.RoleWorker, Flags: []string{"--network", "loopback", "--cpus", fmt.Sprint(studyPods), "--memory", "4Gi", "--reserve", "0%"}}
		if studyGateways[studyTier(node)] == node {
			h.Flags = append(h.Flags, "--gateway", ":"+studyPort)
		}
		f.Hosts[node] = h
	}
	hosts := slices.Sorted(maps.Keys(f.Hosts))
	for i, x := range hosts {
		for _, y := range hosts[i+1:] {
			f.Links.Between = append(f.Links.Between, lab.Pair{Hosts: []string{x, y}, LinkSpec: lab.LinkSpec{RTT: b.rtt(b.tier(x, "edge"), b.tier(y, "edge"))}})
		}
	}
	return f
}

// links has the network as a case has it: the data in their tier, the lines with its
// limits.
func (b *studyBed) links(c studyCase) error {
	source := c.source
	if source == "" {
		source = "edge"
	}
	site := lab.Site{Hosts: []string{studyClient}, Up: b.rate(studyUp), Down: b.rate(studyDown)}
	if c.limit > 0 {
		site.Up, site.Down = b.rate(min(studyUp, c.limit)), b.rate(min(studyDown, c.limit))
	}
	if source == "edge" {
		site.Hosts = append(site.Hosts, studyHub)
	}
	for _, node := range b.nodes {
		if studyTier(node) == "edge" {
			site.Hosts = append(site.Hosts, node)
		}
		// Images are what needs the bandwidth, and they come from there.
		limit := b.rate(c.limit)
		if _, err := b.Set(studyHub, node, lab.LinkSpec{RTT: b.rtt(source, studyTier(node)), Rate: &limit}, true); err != nil {
			return err
		}
		if _, err := b.Set(node, studyHub, lab.LinkSpec{RTT: b.rtt(source, studyTier(node))}, true); err != nil {
			return err
		}
	}
	return b.SetSites(map[string]lab.Site{"edge": site})
}

// place has the pods of a case at its nodes: those that are there stay if they can.
func (b *studyBed) place(ctx context.Context, c studyCase) error {
	want := map[string]int{}
	for _, node := range c.order() {
		want[node]++
	}
	for node, n := range b.on {
		if n > want[node] {
			if err := b.clear(ctx); err != nil {
				return err
			}
			break
		}
	}
	for _, node := range b.nodes {
		if want[node] == b.on[node] {
			continue
		}
		if err := b.only(ctx, node); err != nil {
			return err
		}
		total := want[node] - b.on[node]
		for _, n := range b.on {
			total += n
		}
		if err := b.scale(ctx, total); err != nil {
			return err
		}
		b.on[node] = want[node]
		if err := b.placed(ctx); err != nil {
			return err
		}
	}
	return nil
}

// only has one node take pods from now on, and waits until the cluster knows that.
func (b *studyBed) only(ctx context.Context, node string) error {
	if b.open == node {
		return nil
	}
	if b.open != "" {
		if _, err := b.hub.Workers.Cordon(ctx, studyHub, b.open, rpc.CordonRequest{Reason: "pods are placed node by node"}); err != nil {
			return fmt.Errorf("cordon %s: %w", b.open, err)
		}
	}
	if err := b.hub.Workers.Uncordon(ctx, studyHub, node); err != nil {
		return fmt.Errorf("uncordon %s: %w", node, err)
	}
	b.open = node
	done, err := experiment.Poll(ctx, studyPatience, func() (bool, error) {
		workers, err := b.hub.Workers.List(ctx)
		for _, w := range workers {
			if err == nil && (w.Cordon == nil) != (w.Name == node) {
				return false, nil
			}
		}
		return true, err
	})
	if err == nil && !done {
		err = fmt.Errorf("the cluster does not know after %v that only %s takes pods", studyPatience, node)
	}
	return err
}

func (b *studyBed) scale(ctx context.Context, replicas int) error {
	if len(b.on) > 0 {
		_, err := b.root.Services.Scale(ctx, studyApp, "pod", replicas)
		return err
	}
	var work []string
	for _, node := range b.nodes {
		work = append(work, fmt.Sprintf("%s=%v", node, time.Duration(float64(studyService(node))/b.speed)))
	}
	_, err := b.root.Applications.Apply(ctx, fmt.Appendf(nil, `application: %s
services:
  pod:
    command: [%q, pod]
    env: {%s: %q}
    replicas: %d
    resources: {cpu: 1, memory: 256Mi}
    policy: least-connections
    concurrency: 1
    queue_max: 1000
    replace_after: 1h
    ports: [{name: http, ingress: {host: %s.localhost}}]
    stop: {signal: KILL}
`, studyApp, b.Tool(), podWork, strings.Join(work, ","), replicas, studyApp), false)
	return err
}

// placed waits until the pods are ready where they should be.
func (b *studyBed) placed(ctx context.Context) error {
	var got map[string]int
	done, err := experiment.Poll(ctx, studyPatience, func() (bool, error) {
		list, err := b.root.Instances.List(ctx, studyApp, "pod")
		got = map[string]int{}
		for _, i := range list {
			if i.Ready {
				got[i.Worker]++
			}
		}
		return maps.Equal(got, b.on), err
	})
	if err == nil && !done {
		err = fmt.Errorf("after %v pods are ready at %v, not at %v", studyPatience, got, b.on)
	}
	return err
}

// clear removes all pods.
func (b *studyBed) clear(ctx context.Context) error {
	if err := b.root.Applications.Delete(ctx, studyApp); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	gone, err := experiment.Poll(ctx, studyPatience, func() (bool, error) {
		_, err := b.root.Applications.Get(ctx, studyApp)
		var p *wire.Problem
		if errors.As(err, &p) && p.Status == http.StatusNotFound {
			return true, nil
		}
		return false, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("the pods are not gone after %v", studyPatience)
	}
	b.on = map[string]int{}
	return err
}

// dialer from the clients' host.
func (b *studyBed) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return b.Dial(ctx, studyClient, network, addr)
}
