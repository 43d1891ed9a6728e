package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/bench"
)

// What the worker of containers, its image and its one service that answers are called.
const (
	containerLabel = "footprint"
	containerImage = "footprint:1"
	containerHost  = "footprint.test"
)

// inContainers is an application of so many containers that do nothing, on the worker
// that has containerd.
func inContainers(app string, replicas int) []byte {
	return fmt.Appendf(nil, `application: %s
services:
  idle:
    runtime: container
    image: %s
    pull: never
    command: [sleep, "1000000"]
    replicas: %d
    resources: {cpu: 5m, memory: 8Mi, disk: 1Mi}
    affinity: {labels: {has: %s}}
    stop: {signal: KILL}
`, app, containerImage, replicas, containerLabel)
}

// answering is one container that answers requests at the gateway.
func answering(app string) []byte {
	return fmt.Appendf(nil, `application: %s
services:
  web:
    runtime: container
    image: %s
    pull: never
    command: [sh, -c, "exec httpd -f -p $$PORT -h /etc"]
    resources: {cpu: 5m, memory: 8Mi, disk: 1Mi}
    affinity: {labels: {has: %s}}
    ports: [{name: http, ingress: {host: %s}}]
    readiness: {http: {path: /passwd}}
    stop: {signal: KILL}
`, app, containerImage, containerLabel, containerHost)
}

// lacking says what is missing for containers here, "" if nothing is.
func lacking() string {
	if os.Getenv(inside) == "" {
		return "root on Linux"
	}
	var list []string
	for _, p := range []string{"containerd", "containerd-shim-runc-v2", "runc", "ctr", "busybox"} {
		if _, err := exec.LookPath(p); err != nil {
			list = append(list, p)
		}
	}
	return strings.Join(list, ", ")
}

// helpers are who works for the containers of a worker besides Verge.
type helpers struct{ *containertest.Containerd }

// use of containerd and of its shims together. What has ended of them is not in it.
func (h helpers) use() (bench.Use, error) {
	shims, err := h.Shims()
	if err != nil {
		return bench.Use{}, err
	}
	return bench.Measure(append(shims, h.PID()))
}

// measureContainers measures a worker of which the instances are containers, with a
// containerd of its own. b.worker is that worker afterwards.
func (b *measurer) measureContainers(ctx context.Context) (err error) {
	if what := lacking(); what != "" {
		b.notes = append(b.notes, "Containers were not measured, for want of "+what+
			" (on Debian: containerd, runc, busybox-static).")
		return nil
	}
	if b.containerd, err = containertest.New(); err != nil {
		return err
	}
	if err := b.image(ctx); err != nil {
		return err
	}
	b.worker, err = b.Stage.Worker(ctx, b.Cluster, "edge-ctr", true, "--containerd", b.containerd.Address, "--label",
		"has="+containerLabel, "--memory", "2Gi")
	if err != nil {
		return err
	}
	c := b.Above
	if _, err := b.once(ctx, c, "warm", 1, inContainers); err != nil {
		return err
	}
	if err := b.rounded(ctx, c, 250, "one container", inContainers); err != nil {
		return err
	}
	return b.manyContainers(ctx, c, helpers{b.containerd})
}

// image makes an image of busybox and gives it to containerd.
func (b *measurer) image(ctx context.Context) error {
	made, err := containertest.Build(containertest.Config{Cmd: []string{"/bin/true"}})
	if err != nil {
		return fmt.Errorf("making an image: %w", err)
	}
	archive := filepath.Join(b.Stage.Dir, "image.tar")
	if err := containertest.Save(archive, containerImage, made); err != nil {
		return fmt.Errorf("writing an image: %w", err)
	}
	out, err := b.Stage.Command(ctx, b.Root.Context, "image", "load", archive, "--containerd",
		b.containerd.Address).CombinedOutput()
	if err != nil {
		return fmt.Errorf("loading an image: %w\n%s", err, out)
	}
	return nil
}

// manyContainers deploys many containers on the one worker, lets them be, and lets the
// agent of their worker die.
func (b *measurer) manyContainers(ctx context.Context, c *client.Client, h helpers) error {
	n := float64(b.many)
	if b.many < 2 {
		return nil
	}
	if _, err := deploy(ctx, c, "first", inContainers("first", 1), 1); err != nil {
		return err
	}
	if err := bench.Pause(ctx, settle); err != nil {
		return err
	}
	few, err := b.helped(h)
	if err != nil {
		return err
	}
	shim, err := h.use()
	if err != nil {
		return err
	}
	b.Note(float64(shim.PSS)/1e6, "MB", "containerd and one shim: memory (PSS), with 1 container")
	before, err := b.all()
	if err != nil {
		return err
	}
	theirs, err := h.CPU()
	if err != nil {
		return err
	}
	took, err := deploy(ctx, c, "many", inContainers("many", b.many), b.many)
	if err != nil {
		return err
	}
	after, err := b.all()
	if err != nil {
		return err
	}
	now, err := h.CPU()
	if err != nil {
		return err
	}
	b.Most(took.Seconds(), 8*n/100, "s", "apply to Running, %d containers on one worker", b.many)
	own := ticks(before, after)
	for i, r := range b.roles() {
		b.Note(bench.Milliseconds(after[i].Ticks-before[i].Ticks)/n, "ms",
			"%s: processor time per container, %d deployed at once", r.name, b.many)
	}
	b.Most(bench.Milliseconds(own)/n, 15, "ms", "all of Verge: processor time per container, %d deployed at once",
		b.many)
	b.Most(bench.Milliseconds(own+now-theirs)/n, 50, "ms",
		"Verge, containerd, shims and runc: processor time per container, %d deployed at once", b.many)
	if err := bench.Pause(ctx, settle); err != nil {
		return err
	}
	all, err := b.helped(h)
	if err != nil {
		return err
	}
	b.Most(float64(all.PSS-few.PSS)/1e6/n, 1, "MB",
		"worker, containerd and shims: memory (PSS) per further container, with %d", b.many)
	if err := bench.Pause(ctx, b.span); err != nil {
		return err
	}
	later, err := b.helped(h)
	if err != nil {
		return err
	}
	minutes := b.span.Minutes()
	b.Most(bench.Milliseconds(later.CPU-all.CPU), 600*minutes, "ms",
		"worker, containerd and shims, idle with %d containers: processor time in %s", b.many, b.spanText())
	b.Most(float64(later.worker.Written-all.worker.Written), 0, "B",
		"worker, idle with %d containers: written to disk in %s", b.many, b.spanText())
	b.Note(float64(later.Written-all.Written-later.worker.Written+all.worker.Written), "B",
		"containerd and shims, idle with %d containers: written to disk in %s", b.many, b.spanText())
	return b.agentDies(ctx, c)
}

// helped is what a worker uses together with those who help it.
type helped struct {
	bench.Use
	worker bench.Use // alone
}

func (b *measurer) helped(h helpers) (helped, error) {
	w, err := bench.Measure([]int{b.worker.PID(), b.worker.Engine})
	if err != nil {
		return helped{}, err
	}
	t, err := h.use()
	return helped{worker: w, Use: bench.Use{
		PSS: w.PSS + t.PSS, Dirty: w.Dirty + t.Dirty, Written: w.Written + t.Written, CPU: w.CPU + t.CPU,
		Ticks: w.Ticks + t.Ticks,
	}}, err
}

// agentDies kills the agent of the worker and starts it again, while requests are sent to
// a container of it.
func (b *measurer) agentDies(ctx context.Context, c *client.Client) error {
	if _, err := deploy(ctx, c, "web", answering("web"), 1); err != nil {
		return err
	}
	v := visit(ctx, b.worker.Gateway)
	defer func() { _, _, _ = v.stop() }() // its goroutine, if what follows ends early
	if err := v.until(ctx, 50); err != nil {
		return err
	}
	was, err := restarts(ctx, c)
	if err != nil {
		return err
	}
	if err := b.worker.Process.Kill(); err != nil {
		return err
	}
	began := time.Now()
	if err := b.worker.Start(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	if err := v.until(ctx, v.sent()+50); err != nil {
		return err
	}
	sent, failed, why := v.stop()
	is, err := restarts(ctx, c)
	if err != nil {
		return err
	}
	again := 0
	for id, n := range was {
		if is[id] != n {
			again++
		}
	}
	b.Most(took.Seconds(), 1, "s", "agent killed and started again with %d containers: until its cluster hears of them",
		b.many+2)
	b.Most(float64(again), 0, "", "agent killed and started again: containers that were started again or are gone")
	b.Most(float64(failed), 0, "", "agent killed and started again: failed requests of %d", sent)
	if why != nil {
		b.notes = append(b.notes, fmt.Sprintf("The first request that failed: %v.", why))
	}
	for _, app := range []string{"web", "many", "first"} {
		if err := remove(ctx, c, app); err != nil {
			return err
		}
	}
	return nil
}

// restarts of all instances that run, by their names.
func restarts(ctx context.Context, c *client.Client) (map[wire.InstanceID]int, error) {
	list, err := c.Instances.List(ctx, "", "")
	out := map[wire.InstanceID]int{}
	for _, i := range list {
		if i.State == wire.Running {
			out[i.ID] = i.Restarts
		}
	}
	return out, err
}

// visitor sends requests, one after the other.
type visitor struct {
	end    context.CancelFunc
	ended  chan struct{}
	counts chan [2]int // the last of sent and failed, one at most
	why    error       // of the first that failed; read after ended
	last   [2]int      // of the reader
}

// visitEvery is the pause between two requests.
const visitEvery = 5 * time.Millisecond

func visit(ctx context.Context, gateway string) *visitor {
	ctx, cancel := context.WithCancel(ctx)
	v := &visitor{end: cancel, ended: make(chan struct{}), counts: make(chan [2]int, 1)}
	go func() {
		defer close(v.ended)
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for n := [2]int{}; bench.Pause(ctx, visitEvery) == nil; {
			err := ask(ctx, client, gateway)
			if ctx.Err() != nil {
				return
			}
			if n[0] == 0 && err != nil {
				continue // the gateway has not heard of it yet
			}
			if n[0]++; err != nil {
				n[1]++
				if v.why == nil {
					v.why = err
				}
			}
			select {
			case <-v.counts:
			default:
			}
			v.counts <- n
		}
	}()
	return v
}

func ask(ctx context.Context, client *http.Client, gateway string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/passwd", nil)
	if err != nil {
		return err
	}
	r.Host = containerHost
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %.100s", answer.Status, text)
	}
	return nil
}

// sent is how many requests there were when it was last looked.
func (v *visitor) sent() int { return v.last[0] }

// until waits for so many requests.
func (v *visitor) until(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for v.last[0] < n {
		select {
		case v.last = <-v.counts:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %d answers of a container: %w", n, ctx.Err())
		case <-v.ended:
			return errors.New("no requests are sent any more")
		}
	}
	return nil
}

// stop ends it, also twice, and says how many were sent and how many of them failed.
func (v *visitor) stop() (sent, failed int, why error) {
	v.end()
	<-v.ended
	select {
	case v.last = <-v.counts:
	default:
	}
	return v.last[0], v.last[1], v.why
}
