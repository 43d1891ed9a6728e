package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// placeWithin is how long an engine that may do without the service network waits for
// its worker's place in it once it has orders: a cluster that has places gives one
// together with the first.
const placeWithin = 20 * time.Second

// What is said of a worker without service network, or not yet in it.
const (
	notAsked  = "it was started with --network loopback"
	keptOut   = "what runs here was started without it: that goes on, and the worker takes the service network when it is started again after verge worker stop"
	keptIn    = "what runs here was started in the service network, which goes on until verge worker stop"
	noPlace   = "its cluster has given it no place in the service network"
	waitPlace = "waiting for its place in the service network, which its cluster gives"
)

// openNetwork decides how instances are connected, and says so. That holds as long as
// this engine lives; what an earlier one has started and still runs counts more than
// the settings.
func (e *Engine) openNetwork(k *kit) {
	info := &wire.NetworkInfo{Mode: wire.NetworkLoopback}
	defer e.board.SetInfo(func(i *wire.EngineInfo) { i.Network = info })
	mode := cmp.Or(k.config.Network, wire.NetworkLoopback)
	within, without := runningIn(k.dir, k.boot)
	switch {
	case within && mode == wire.NetworkLoopback:
		info.Why = keptIn
	case without && !within && mode != wire.NetworkLoopback:
		info.Why = keptOut
		if mode == wire.NetworkOverlay {
			k.problems.Tell("service network", "no service network: "+keptOut)
		}
		return
	case !within && mode == wire.NetworkLoopback:
		info.Why = notAsked
		return
	}
	k.optional = mode == wire.NetworkAuto && !within
	err := e.filtered(k)
	if err == nil {
		k.network, err = newNetwork(e, k)
	}
	switch {
	case err == nil:
		info.Mode = wire.NetworkOverlay
	case k.optional:
		k.optional, info.Why = false, err.Error()
	default:
		info.Mode, info.Why = wire.NetworkOverlay, err.Error()
		k.noNetwork = fmt.Errorf("this machine can't have the service network: %w; start the worker with --network auto or loopback, or see to it", err)
		k.problems.Tell("service network", k.noNetwork.Error())
	}
}

// net is the service network, nil where instances share the machine's.
func (k *kit) net() network {
	if k.declined.Load() {
		return nil
	}
	return k.network
}

// decline does without the service network, in which nothing is yet. Who waits for it
// is to be woken.
func (e *Engine) decline(why error) {
	k := e.kit
	k.declined.Store(true)
	k.problems.Set("service network", k.network.Clear())
	k.network.Close()
	e.log.Info("no service network: instances share the machine's", "why", why)
	e.board.SetInfo(func(i *wire.EngineInfo) {
		said := wire.NetworkInfo{Mode: wire.NetworkLoopback, Why: why.Error()}
		if i.Network != nil {
			said.Relay = i.Network.Relay
		}
		i.Network = &said
	})
}

// awaitPlace declines where there is no place for too long.
func (e *Engine) awaitPlace(ctx context.Context) {
	t := time.NewTimer(cmp.Or(e.opts.parts.placeWithin, placeWithin))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return
	case <-t.C:
	}
	// Run may be waiting for this very function, with the lock: it hands over.
	if !e.applying.lockUntil(ctx) {
		return
	}
	defer e.applying.Unlock()
	e.mu.Lock()
	placed := e.placed
	e.mu.Unlock()
	if placed || e.kit.net() == nil {
		return
	}
	e.decline(errors.New(noPlace))
	e.wakeAll()
	e.replan()
}

// runningIn says whether an earlier engine of this boot has left processes of
// instances within the service network, and without. What its files say counts only
// where the process itself agrees.
func runningIn(dir, boot string) (within, without bool) {
	dirs, err := os.ReadDir(filepath.Join(dir, state.InstancesDir))
	if err != nil {
		return false, false // there are none
	}
	own := netOf("self")
	for _, d := range dirs {
		if !d.IsDir() || !state.ValidID(d.Name()) {
			continue
		}
		rec, err := state.ReadRecord(filepath.Join(dir, state.InstancesDir, d.Name()), d.Name())
		if err != nil || rec.Handle == nil || rec.Boot != boot {
			continue
		}
		switch in := netOf(strconv.Itoa(rec.Handle.PID)); {
		case in == "": // it has ended
		case rec.Net != nil && in != own:
			within = true
		case rec.Net == nil && in == own:
			without = true
		}
	}
	return within, without
}

// netOf names the network namespace of a process, "" if it is not there.
func netOf(pid string) string {
	name, err := os.Readlink(filepath.Join("/proc", pid, "ns", "net"))
	if err != nil {
		return ""
	}
	return name
}
