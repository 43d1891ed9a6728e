package oakestra

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// SplitReal is the experiment oakestra-split with a real root and real clusters.
var SplitReal = experiment.Experiment{
	Name: Split.Name, Source: Split.Source, Emulated: true,
	Shows: "45 workers as one cluster of 45 to 45 clusters of one, 100 deployments one after the other: processor time " +
		"of the root's and the cluster's decision (computed), and messages, counted on the links of a root and its " +
		"clusters, whose workers are hollow: packets that carry something",
	Lab: runSplitReal,
	Plot: &experiment.Plot{X: "clusters", Series: "tier", Metric: "decision", Title: Split.Plot.Title, More: []experiment.Plot{
		{X: "clusters", Series: "at", Metric: "idle_messages", Title: "messages in a minute at rest"},
		{X: "clusters", Series: "at", Metric: "messages", Title: "messages for a deployment, on all links"},
	}},
}

// splitSize is how much is counted.
type splitSize struct {
	workers, deployments int
	splits               []int
	settle, idle         time.Duration
}

func runSplitReal(ctx context.Context, e *experiment.Env) error {
	if err := runOakestraSplit(ctx, e); err != nil {
		return err
	}
	size := splitSize{45, 100, []int{1, 3, 5, 9, 15, 45}, 10 * time.Second, 30 * time.Second}
	if e.Quick {
		size = splitSize{4, 3, []int{1, 4}, time.Second, time.Second}
	}
	for _, clusters := range size.splits {
		if err := countSplit(ctx, e, size, clusters); err != nil {
			return fmt.Errorf("with %d clusters: %w", clusters, err)
		}
	}
	return nil
}

// divided is a root with clusters of as many hollow workers each.
type divided struct {
	*lab.Lab
	clusters, hollow []string // hosts, in the same order
	each             int      // workers of a cluster
}

func countSplit(ctx context.Context, e *experiment.Env, size splitSize, clusters int) (err error) {
	d, err := divide(ctx, e, clusters, size.workers/clusters)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Down()) }()
	if err := experiment.Pause(ctx, size.settle); err != nil { // who has just joined says more
		return err
	}
	before, err := d.Stats()
	if err != nil {
		return err
	}
	if err := experiment.Pause(ctx, size.idle); err != nil {
		return err
	}
	quiet, err := d.Stats()
	if err != nil {
		return err
	}
	for i := range size.deployments {
		if err := d.deploy(ctx, fmt.Sprint("lab-", i)); err != nil {
			return err
		}
	}
	busy, err := d.Stats()
	if err != nil {
		return err
	}
	from := len(e.Rows)
	params := map[string]any{"clusters": clusters, "workers_each": d.each}
	root, cluster := messages(d.heard(before), d.heard(quiet))
	perMinute := float64(time.Minute) / float64(size.idle)
	for _, x := range []struct {
		at    string
		heard uint64
	}{{"root", root}, {"a cluster", cluster}, {"the busiest", max(root, cluster)}} {
		e.Row(experiment.Row{Params: experiment.With(params, "at", x.at), Metric: "idle_messages", Unit: "1/min",
			Measured: experiment.Rounded(float64(x.heard) * perMinute), Note: "counted on its links to those below it"})
	}
	all := carried(d.heard(quiet), d.heard(busy))
	e.Row(experiment.Row{Params: experiment.With(params, "at", "all links"), Metric: "messages", Unit: "1/deployment",
		Measured: experiment.Rounded(float64(all) / float64(size.deployments)),
		Note:     "counted on all links, with what is said meanwhile anyway"})
	e.Measured(from, lab.Lateness(before, busy))
	return nil
}

// divide makes the tiers, and returns when all workers are ready.
func divide(ctx context.Context, e *experiment.Env, clusters, each int) (_ *divided, err error) {
	rtt := api.Duration(time.Millisecond)
	f := lab.File{
		Links: lab.Links{Default: lab.LinkSpec{RTT: &rtt}},
		Hosts: map[string]lab.Host{"root": {Role: lab.RoleRoot}},
	}
	d := &divided{each: each}
	for i := range clusters {
		d.clusters = append(d.clusters, fmt.Sprintf("c%02d", i+1))
		d.hollow = append(d.hollow, fmt.Sprintf("w%02d", i+1))
		f.Hosts[d.clusters[i]] = lab.Host{Role: lab.RoleCluster}
		f.Hosts[d.hollow[i]] = lab.Host{}
	}
	if d.Lab, err = e.Up(ctx, f); err != nil {
		return nil, err
	}
	for i := range d.clusters {
		if err := d.join(ctx, d.clusters[i], d.hollow[i]); err != nil {
			return nil, errors.Join(err, d.Down())
		}
	}
	const timeout = 2 * time.Minute
	for _, c := range d.clusters {
		ready, err := experiment.Poll(ctx, timeout, func() (bool, error) { return d.ready(ctx, c) })
		if err == nil && !ready {
			err = fmt.Errorf("the workers of %s are not ready after %v", c, timeout)
		}
		if err != nil {
			return nil, errors.Join(err, d.Down())
		}
	}
	return d, nil
}

// join starts the hollow workers of a cluster at a host.
func (d *divided) join(ctx context.Context, cluster, host string) error {
	c, err := d.Client(cluster)
	if err != nil {
		return err
	}
	token, err := c.Tokens.Create(ctx, apiv1.TokenRequest{Kind: "worker", Uses: d.each})
	if err != nil {
		return fmt.Errorf("token for %s: %w", host, err)
	}
	file := filepath.Join(d.Dir(host), "token")
	if err := os.WriteFile(file, []byte(token.Token), 0o600); err != nil {
		return fmt.Errorf("token for %s: %w", host, err)
	}
	_, err = d.Start(host, d.Program(), "worker", "--hollow", fmt.Sprint(d.each), "--name", host, "--token-file", file,
		"--cpus", "4", "--memory", "8Gi", "--disk", "100Gi", "--data-dir", filepath.Join(d.Dir(host), "data"))
	return err
}

func (d *divided) ready(ctx context.Context, cluster string) (bool, error) {
	c, err := d.Client(cluster)
	if err != nil {
		return false, err
	}
	list, err := c.Workers.List(ctx)
	n := 0
	for _, w := range list {
		if w.Status == "ready" {
			n++
		}
	}
	return n == d.each, err
}

// deploy applies an application of one instance at the root, and waits until it runs.
func (d *divided) deploy(ctx context.Context, name string) error {
	c, err := d.Client("root")
	if err != nil {
		return err
	}
	text := fmt.Sprintf("application: %s\nservices:\n  main:\n    command: [sleep, \"100000\"]\n"+
		"    resources: {cpu: 10m, memory: 4Mi, disk: 1Mi}\n", name)
	if _, err := c.Applications.Apply(ctx, []byte(text), false); err != nil {
		return fmt.Errorf("apply %s: %w", name, err)
	}
	runs, err := experiment.Poll(ctx, time.Minute, func() (bool, error) {
		v, err := c.Applications.Get(ctx, name)
		return v.Holds, err
	})
	if err == nil && !runs {
		err = fmt.Errorf("%s does not run after a minute", name)
	}
	return err
}

// heard is what went over the links so far, both ways: those of the root first, then those of
// each cluster and its workers.
func (d *divided) heard(st emul.Stats) []emul.Count {
	both := func(a, b []string) emul.Count { return d.Between(st, a, b).Add(d.Between(st, b, a)) }
	out := []emul.Count{both([]string{"root"}, d.clusters)}
	for i := range d.clusters {
		out = append(out, both(d.clusters[i:i+1], d.hollow[i:i+1]))
	}
	return out
}

// messages are the packets that carried something between two looks: at the root, and at the
// cluster with the most.
func messages(before, after []emul.Count) (root, cluster uint64) {
	for i := range after[1:] {
		cluster = max(cluster, after[i+1].Data-before[i+1].Data)
	}
	return after[0].Data - before[0].Data, cluster
}

// carried is their sum on all links.
func carried(before, after []emul.Count) (sum uint64) {
	for i := range after {
		sum += after[i].Data - before[i].Data
	}
	return sum
}
