package cluster

import (
	"errors"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what a worker may say; the cluster's own records, and its messages to
// the root, must have room for it.
const (
	maxInfo = 64 << 10

	maxWords = 1 << 10 // of a reason
	maxName  = 100
	maxHeld  = 200 // secrets of an instance
)

// check refuses a status that is not about the instance that it names, and cuts
// off what is longer than it can need to be.
func check(st *wire.InstanceStatus, key string) error {
	if st.ID != key {
		return fmt.Errorf("it is about %q", cut(st.ID, maxName))
	}
	switch st.Phase {
	case wire.PhasePending, wire.PhaseRunning, wire.PhaseStopped, wire.PhaseExited, wire.PhaseRefused:
	default:
		return fmt.Errorf("there is no phase %q", cut(string(st.Phase), maxName))
	}
	st.Why = cut(st.Why, maxWords)
	st.Addrs = st.Addrs[:min(len(st.Addrs), lease.MaxAddrs)]
	st.Restarts = max(0, st.Restarts)
	if st.LastExit != nil {
		st.LastExit.Signal = cut(st.LastExit.Signal, maxName)
		st.LastExit.Why = cut(st.LastExit.Why, maxWords)
	}
	st.Secrets = st.Secrets[:min(len(st.Secrets), maxHeld)]
	for k := range st.Secrets {
		h := &st.Secrets[k]
		h.Name, h.Version, h.Next, h.Why = cut(h.Name, maxName), cut(h.Version, maxName), cut(h.Next, maxName), cut(h.Why, maxWords)
	}
	if v := st.Volumes; v != nil {
		v.Why, v.Volumes = cut(v.Why, maxWords), v.Volumes[:min(len(v.Volumes), maxHeld)]
		for k := range v.Volumes {
			o := &v.Volumes[k]
			o.Name, o.Object, o.Digest = cut(o.Name, maxName), cut(o.Object, api.MaxObjectName), cut(o.Digest, maxName)
		}
	}
	st.Ports = nil // known to the worker alone
	return nil
}

// checkShare refuses a share that nobody could act on.
func checkShare(s *wire.Share, key string) error {
	switch {
	case s.App+"."+s.Service != key:
		return fmt.Errorf("it is about %q", cut(s.App+"."+s.Service, maxName))
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

// cut shortens s to n bytes, and says so.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}
