package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/tools/bench"
	"github.com/verge-edge/verge/tools/stage"
)

// stepTimeout bounds one request, and one step of a deployment.
const stepTimeout = 3 * time.Minute

// measurer is a stage with services that sleep.
type measurer struct {
	options
	bench.Figures
	*stage.Small
	worker     *stage.Worker
	engine     *engineclient.Remote
	containerd *containertest.Containerd // nil without one
	dir        string                    // for what is deployed
	kinds      []*kind

	seq    uint64
	asleep map[wire.InstanceID]bool
}

func newMeasurer(ctx context.Context, o options) (_ *measurer, err error) {
	b := &measurer{options: o, asleep: map[wire.InstanceID]bool{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.wanted("container, image present") {
		if err := containertest.Install(); err != nil {
			bench.Say("containers are not measured: %v", err)
		} else if b.containerd, err = containertest.New(); err != nil {
			return nil, err
		}
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	if err := b.build(ctx); err != nil {
		return nil, err
	}
	return b, b.measure(ctx)
}

func (b *measurer) start(ctx context.Context) (err error) {
	if b.Small, err = stage.Begin(ctx, b.verge, nil); err != nil {
		return err
	}
	b.dir = filepath.Join(b.Stage.Dir, "deployed")
	if err := os.Mkdir(b.dir, 0o700); err != nil {
		return err
	}
	var flags []string
	if b.containerd != nil {
		flags = []string{"--containerd", b.containerd.Address}
	}
	if b.worker, err = b.Stage.Worker(ctx, b.Cluster, "edge-1", true, flags...); err != nil {
		return err
	}
	b.engine = engineclient.NewRemote(b.worker.Dir)
	return nil
}

func (b *measurer) close() error {
	if b.engine != nil {
		b.engine.Close()
	}
	err := b.End()
	if b.containerd != nil {
		err = errors.Join(err, b.containerd.Close())
	}
	return err
}

// sleeps returns when an instance of the worker sleeps.
func (b *measurer) sleeps(ctx context.Context, id wire.InstanceID) error {
	for end := time.Now().Add(stepTimeout); !b.asleep[id]; {
		st, err := b.engine.State(ctx, b.seq, time.Second)
		if err != nil {
			return err
		}
		b.seq = st.Seq
		for _, s := range st.Changed {
			b.asleep[s.ID] = s.Asleep && s.Phase == wire.PhasePending && s.Why == supervise.WhyAsleep
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not sleep", id)
		}
	}
	return nil
}

// entry is where a service is reached on the worker.
func (b *measurer) entry(ctx context.Context, app string) (string, error) {
	for end := time.Now().Add(stepTimeout); ; {
		list, err := b.engine.Entries(ctx)
		if err != nil {
			return "", err
		}
		for _, e := range list {
			if e.App == app && e.Problem == "" {
				return e.Addr, nil
			}
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("%s has no entry", app)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// deploy applies a service and asks it once, so that everything is where it belongs.
func (b *measurer) deploy(ctx context.Context, s service) error {
	if _, err := b.Above.Applications.Apply(ctx, s.descriptor(), false); err != nil {
		return fmt.Errorf("applying %s: %w", s.app, err)
	}
	addr, err := b.entry(ctx, s.app)
	if err != nil {
		return err
	}
	client := newClient()
	for _, at := range []string{addr, b.worker.Gateway} {
		for end := time.Now().Add(stepTimeout); ; time.Sleep(20 * time.Millisecond) {
			err := ask(ctx, client, at, s.host())
			if err == nil {
				break
			}
			if time.Now().After(end) || ctx.Err() != nil {
				return fmt.Errorf("%s does not answer at %s: %w", s.app, at, err)
			}
		}
	}
	return nil
}

// measure deploys all kinds and starts each as often as it is to be. Those that stay
// in memory for a while come in two rounds, of which each service has one start.
func (b *measurer) measure(ctx context.Context) error {
	rested := time.Now()
	for _, k := range b.kinds {
		bench.Say("deploying %d × %s", len(k.services), k.name)
		for _, s := range k.services {
			if err := b.deploy(ctx, s); err != nil {
				return err
			}
		}
		rested = time.Now()
	}
	for _, k := range b.kinds {
		for i := 0; !k.rests && i < b.rounds; i++ {
			if err := b.both(ctx, k, k.services[i%len(k.services)]); err != nil {
				return err
			}
		}
	}
	for _, gateway := range []bool{false, true} {
		resting := false
		for _, k := range b.kinds {
			resting = resting || k.rests
		}
		if !resting {
			break
		}
		bench.Say("waiting until no module is in memory")
		if err := bench.Pause(ctx, time.Until(rested.Add(b.keep+3*time.Second))); err != nil {
			return err
		}
		for _, k := range b.kinds {
			for i := 0; k.rests && i < len(k.services); i++ {
				if err := b.cold(ctx, k, k.services[i], gateway); err != nil {
					return err
				}
				if err := b.bare(ctx, k); err != nil {
					return err
				}
			}
		}
		rested = time.Now()
	}
	return nil
}

// both starts a service by a request at its entry, and by one through the gateway.
func (b *measurer) both(ctx context.Context, k *kind, s service) error {
	for _, gateway := range []bool{false, true} {
		if err := b.cold(ctx, k, s, gateway); err != nil {
			return err
		}
		if err := b.bare(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (b *measurer) bare(ctx context.Context, k *kind) error {
	took, err := k.floor(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", k.bare, err)
	}
	k.floors = append(k.floors, took)
	return nil
}

// cold is one start by a request, and the stop that follows.
func (b *measurer) cold(ctx context.Context, k *kind, s service, gateway bool) error {
	addr, err := b.entry(ctx, s.app)
	if err != nil {
		return err
	}
	if err := b.sleeps(ctx, s.instance()); err != nil {
		return err
	}
	if gateway {
		addr = b.worker.Gateway
	}
	pids := []int{b.worker.PID(), b.worker.Engine}
	before, err := bench.Measure(pids)
	if err != nil {
		return err
	}
	client := newClient()
	begin := time.Now()
	if err := ask(ctx, client, addr, s.host()); err != nil {
		return fmt.Errorf("%s at %s: %w", s.app, addr, err)
	}
	took := time.Since(begin)
	delete(b.asleep, s.instance())
	if err := b.sleeps(ctx, s.instance()); err != nil {
		return err
	}
	after, err := bench.Measure(pids)
	if err != nil {
		return err
	}
	k.cpu += after.Ticks - before.Ticks
	if gateway {
		k.gateway = append(k.gateway, took)
	} else {
		k.entry = append(k.entry, took)
	}
	return nil
}
