package network

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Reasons why a worker is outside the service network, or not yet in it.
const (
	// NotAsked: its settings say so.
	NotAsked = "it was started with --network loopback"
	// StaysOutside: its running instances were started outside.
	StaysOutside = "its running instances were started without the service network: " +
		"to use it, run verge worker stop and start the worker again"
	// StaysInside: its running instances were started inside.
	StaysInside = "its running instances were started in the service network, which it keeps until verge worker stop"
	// NoPlace: its cluster has no address for it.
	NoPlace   = "its cluster has no address in the service network for it"
	waitPlace = "waiting for its address in the service network from its cluster"
)

// choose decides how instances are connected, and returns the mode with its reason.
func (n *Network) choose() *wire.NetworkInfo {
	info := &wire.NetworkInfo{Mode: wire.NetworkLoopback}
	mode := cmp.Or(n.o.Config.Network, wire.NetworkLoopback)
	within, without := runningIn(n.o.Dir, n.o.Boot)
	switch {
	case within && mode == wire.NetworkLoopback:
		info.Why = StaysInside
	case without && !within && mode != wire.NetworkLoopback:
		info.Why = StaysOutside
		if mode == wire.NetworkOverlay {
			n.o.Problems.Tell(subject, "no service network: "+StaysOutside)
		}
		return info
	case !within && mode == wire.NetworkLoopback:
		info.Why = NotAsked
		return info
	}
	n.optional = mode == wire.NetworkAuto && !within
	err := n.filtered()
	if err == nil {
		n.overlay, err = n.open()
	}
	switch {
	case err == nil:
		info.Mode = wire.NetworkOverlay
	case n.optional:
		n.optional, info.Why = false, err.Error()
	default:
		info.Mode, info.Why = wire.NetworkOverlay, err.Error()
		n.refused = fmt.Errorf("this machine can't have the service network: %w; start the worker with --network "+
			"auto or loopback, or see to it", err)
		n.o.Problems.Tell(subject, n.refused.Error())
	}
	return info
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
