package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/wire"
)

// Root is a root on the stage.
type Root struct {
	*Process
	// Context is the administrator's context file.
	Context string

	stage *Stage
	args  []string
}

// Root starts the root and waits until it answers.
func (s *Stage) Root(ctx context.Context) (*Root, error) {
	api, err := s.addr()
	if err != nil {
		return nil, err
	}
	link, err := s.addr()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, "root")
	r := &Root{
		stage: s, Context: filepath.Join(dir, "context.yaml"),
		args: []string{"root", "--data-dir", dir, "--api", api, "--link", link},
	}
	return r, r.Start(ctx)
}

// Start starts the root, again with the same command if it has run before.
func (r *Root) Start(ctx context.Context) (err error) {
	if r.Process, err = r.stage.start("root", r.args...); err != nil {
		return err
	}
	return r.until(ctx, answers(r.Context, func(apiv1.StatusView) error { return nil }))
}

// Client of the root's HTTP interface, to be closed by the caller.
func (r *Root) Client() (*client.Client, error) { return connect(r.Context) }

// Cluster is a cluster on the stage.
type Cluster struct {
	*Process
	// ID is its name, Context the operator's context file.
	ID, Context string

	stage *Stage
	args  []string
}

// Cluster joins a cluster to the root and waits until it answers. It serves the
// area of its name and shares the details of its inside.
func (s *Stage) Cluster(ctx context.Context, root *Root, name string) (*Cluster, error) {
	link, err := s.addr()
	if err != nil {
		return nil, err
	}
	api, err := s.addr()
	if err != nil {
		return nil, err
	}
	token, err := s.token(ctx, root.Context, "cluster-"+name, "--cluster", name)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(s.Dir, "clusters", name)
	c := &Cluster{ID: name, Context: filepath.Join(dir, "context.yaml"), stage: s}
	c.args = []string{"cluster", "--name", name, "--data-dir", dir, "--token-file", token,
		"--link", link, "--api", api, "--area", name, "--share-details"}
	return c, c.Start(ctx)
}

// Start starts the cluster, again with the same command if it has run before, and waits
// until it answers and is linked to its root.
func (c *Cluster) Start(ctx context.Context) (err error) {
	if c.Process, err = c.stage.start("cluster "+c.ID, c.args...); err != nil {
		return err
	}
	return c.until(ctx, answers(c.Context, func(st apiv1.StatusView) error {
		if st.Upstream != "connected" {
			return errors.New("link to the root: " + st.Upstream)
		}
		return nil
	}))
}

// Client of the cluster's HTTP interface, to be closed by the caller.
func (c *Cluster) Client() (*client.Client, error) { return connect(c.Context) }

// Worker is a worker on the stage.
type Worker struct {
	*Process // the agent
	// ID is its name, Cluster that of its cluster, Dir its data directory.
	ID, Cluster, Dir string
	// Gateway address, "" for none.
	Gateway string
	// Engine is the process id of its other half.
	Engine int

	data  string
	stage *Stage
	in    *Cluster
	args  []string
}

// Worker joins a worker to a cluster and waits until its cluster counts on it.
// Every worker has the same room, whatever the machine has: the stage is about
// what happens, not about how much.
// Flags are further ones of verge worker, which count more than its own.
func (s *Stage) Worker(ctx context.Context, c *Cluster, name string, gateway bool, flags ...string) (*Worker, error) {
	token, err := s.token(ctx, c.Context, "worker-"+name, "--worker")
	if err != nil {
		return nil, err
	}
	data, err := s.addr()
	if err != nil {
		return nil, err
	}
	w := &Worker{ID: name, Cluster: c.ID, Dir: filepath.Join(s.Dir, "workers", name), data: data, stage: s, in: c}
	w.args = []string{
		"worker", "--name", name, "--data-dir", w.Dir, "--token-file", token, "--data", data,
		// Of several workers on a machine one alone could have the service network,
		// and the machine's own is left as it is.
		"--cpus", "1", "--memory", "1Gi", "--disk", "4Gi", "--network", "loopback",
	}
	if gateway {
		if w.Gateway, err = s.addr(); err != nil {
			return nil, err
		}
		w.args = append(w.args, "--gateway", w.Gateway)
	}
	w.args = append(w.args, flags...)
	return w, w.Start(ctx)
}

// Start starts the agent, again with the same command if it has run before, and waits
// until its cluster has heard of it since and counts on it.
func (w *Worker) Start(ctx context.Context) (err error) {
	begun := time.Now()
	if w.Process, err = w.stage.start("worker "+w.ID, w.args...); err != nil {
		return err
	}
	ready := answers(w.in.Context, func(st apiv1.StatusView) error {
		since := time.Since(begun).Seconds()
		for _, v := range st.Workers {
			if v.Name == w.ID && v.Status == "ready" && v.AgeSeconds >= 0 && v.AgeSeconds < since {
				return nil
			}
		}
		return fmt.Errorf("cluster %s does not count on it yet", w.Cluster)
	})
	if err := w.until(ctx, ready); err != nil {
		return err
	}
	hands := engineclient.NewRemote(w.Dir)
	defer hands.Close()
	st, err := hands.State(ctx, 0, 0)
	if err != nil {
		return fmt.Errorf("engine of worker %s: %w", w.ID, err)
	}
	w.Engine = st.Info.PID
	return nil
}

// Routes to other workers, as its engine stored them last.
func (w *Worker) Routes() ([]wire.Route, error) {
	o, err := orders.At(w.Dir).Load()
	if err != nil {
		return nil, fmt.Errorf("routes of worker %s: %w", w.ID, err)
	}
	return o.Routes, nil
}

// Address of its data port, by which routes name it.
func (w *Worker) Address() string { return w.data }

// Kill ends the worker as if its machine had lost power: the agent, the engine
// and all processes of its instances at one moment. It returns when none is left,
// and how many there were.
func (w *Worker) Kill() (processes int, err error) {
	found, err := instances(w.Dir)
	if err != nil {
		return 0, err
	}
	// The two that could react to the end of others go first.
	all := append([]int{w.PID(), w.Engine}, found...)
	for _, pid := range all {
		killPID(pid)
	}
	<-w.Ended()
	if err := waitGone(all); err != nil {
		return len(all), err
	}
	// What an instance started while we looked.
	found, err = instances(w.Dir)
	for _, pid := range found {
		killPID(pid)
	}
	return len(all) + len(found), errors.Join(err, waitGone(found))
}

// Exists says whether dir is a stage.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, marker))
	return err == nil
}
