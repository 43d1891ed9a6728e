package check

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what a cluster may say; the root's own records and messages must
// have room for it.
const (
	maxAggregate = 64 << 10
	maxSecrets   = 200 // of an instance
)

// DecodeAggregate reads and bounds what a cluster says of itself.
func DecodeAggregate(raw json.RawMessage, into *wire.Aggregate) error {
	if len(raw) > maxAggregate {
		return fmt.Errorf("it has %d bytes, at most %d are read", len(raw), maxAggregate)
	}
	return json.Unmarshal(raw, into)
}

// Check refuses a report that is not about the instance that it names, and cuts
// off what is longer than it can need to be.
func Check(rep *wire.Reported, key string) error {
	if rep.ID != key || rep.ID != state.InstanceID(rep.App, rep.Service, rep.Ordinal) {
		return fmt.Errorf("it is about %q", state.Cut(rep.ID, state.MaxName))
	}
	if !slices.Contains(life.States(), rep.State) {
		return fmt.Errorf("there is no state %q", state.Cut(string(rep.State), state.MaxName))
	}
	rep.Reason, rep.SLAViolation, rep.Failed = state.Cut(rep.Reason, state.MaxWords),
		state.Cut(rep.SLAViolation, state.MaxWords), state.Cut(rep.Failed, state.MaxWords)
	if rep.Room != nil {
		rep.Room.For = state.Cut(rep.Room.For, state.MaxWords)
	}
	rep.Address, rep.Peer, rep.Worker = state.Cut(rep.Address, state.MaxName), state.Cut(rep.Peer, state.MaxName),
		state.Cut(rep.Worker, state.MaxName)
	rep.Replaces, rep.Avoid, rep.Shadow, rep.Moving, rep.Leaving = "", nil, nil, nil, nil // of no concern to a root
	rep.Secrets = rep.Secrets[:min(len(rep.Secrets), maxSecrets)]
	for k := range rep.Secrets {
		h := &rep.Secrets[k]
		h.Name, h.Version, h.Next, h.Why = state.Cut(h.Name, state.MaxName), state.Cut(h.Version, state.MaxName),
			state.Cut(h.Next, state.MaxName), state.Cut(h.Why, state.MaxWords)
	}
	rep.Relay, rep.Addrs = state.Cut(rep.Relay, state.MaxName), rep.Addrs[:min(len(rep.Addrs), lease.MaxAddrs)]
	rep.Restarts, rep.Starts, rep.AllRestarts = max(0, rep.Restarts), max(0, rep.Starts), max(0, rep.AllRestarts)
	if rep.LastExit != nil {
		rep.LastExit.Signal = state.Cut(rep.LastExit.Signal, state.MaxName)
		rep.LastExit.Why = state.Cut(rep.LastExit.Why, state.MaxWords)
	}
	if extra := len(rep.History) - life.MaxHistory; extra > 0 {
		rep.History = rep.History[extra:]
	}
	for n := range rep.History {
		h := &rep.History[n]
		h.To, h.Tier, h.Why = wire.State(state.Cut(string(h.To), state.MaxName)), state.Cut(h.Tier, state.MaxName),
			state.Cut(h.Why, state.MaxWords)
	}
	return nil
}
