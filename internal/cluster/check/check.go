package check

import (
	"errors"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what a worker may say; the cluster's own records, and its messages to
// the root, must have room for it.
const (
	MaxInfo = 64 << 10
	MaxName = 100
	maxHeld = 200 // secrets of an instance
)

// Check refuses a status that is not about the instance that it names, and cuts
// off what is longer than it can need to be.
func Check(st *wire.InstanceStatus, key string) error {
	if st.ID != key {
		return fmt.Errorf("it is about %q", state.Cut(st.ID, MaxName))
	}
	switch st.Phase {
	case wire.PhasePending, wire.PhaseRunning, wire.PhaseStopped, wire.PhaseExited, wire.PhaseRefused:
	default:
		return fmt.Errorf("there is no phase %q", state.Cut(string(st.Phase), MaxName))
	}
	st.Why = state.Cut(st.Why, state.MaxWords)
	st.Addrs = st.Addrs[:min(len(st.Addrs), lease.MaxAddrs)]
	st.Restarts = max(0, st.Restarts)
	if st.LastExit != nil {
		st.LastExit.Signal = state.Cut(st.LastExit.Signal, MaxName)
		st.LastExit.Why = state.Cut(st.LastExit.Why, state.MaxWords)
	}
	st.Secrets = st.Secrets[:min(len(st.Secrets), maxHeld)]
	for k := range st.Secrets {
		h := &st.Secrets[k]
		h.Name, h.Version, h.Next, h.Why = state.Cut(h.Name, MaxName), state.Cut(h.Version, MaxName),
			state.Cut(h.Next, MaxName), state.Cut(h.Why, state.MaxWords)
	}
	if v := st.Volumes; v != nil {
		v.Why, v.Volumes = state.Cut(v.Why, state.MaxWords), v.Volumes[:min(len(v.Volumes), maxHeld)]
		for k := range v.Volumes {
			o := &v.Volumes[k]
			o.Name, o.Object, o.Digest = state.Cut(o.Name, MaxName), state.Cut(o.Object, api.MaxObjectName),
				state.Cut(o.Digest, MaxName)
		}
	}
	st.Ports = nil // known to the worker alone
	return nil
}

// Share refuses a share that nobody could act on.
func Share(s *wire.Share, key string) error {
	switch {
	case s.App+"."+s.Service != key:
		return fmt.Errorf("it is about %q", state.Cut(s.App+"."+s.Service, MaxName))
	case s.Spec == nil:
		return errors.New("it has no service in it")
	case s.Min > api.MaxReplicas:
		return fmt.Errorf("it asks for %d instances, at most %d can be", s.Min, api.MaxReplicas)
	}
	for _, sp := range s.Ordinals {
		if sp.From < 0 || sp.To < sp.From || sp.To > wire.LocalOrdinals {
			return fmt.Errorf("its ordinals go from %d to %d", sp.From, sp.To)
		}
	}
	return nil
}
