package root

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of what a cluster may say; the root's own records and messages must
// have room for it.
const (
	maxAggregate = 64 << 10
	maxWords     = 2 << 10 // of a reason
	maxName      = 300     // of an address or a name
	maxSecrets   = 200     // of an instance
)

func decodeAggregate(raw json.RawMessage, into *wire.Aggregate) error {
	if len(raw) > maxAggregate {
		return fmt.Errorf("it has %d bytes, at most %d are read", len(raw), maxAggregate)
	}
	return json.Unmarshal(raw, into)
}

// check refuses a report that is not about the instance that it names, and cuts
// off what is longer than it can need to be.
func check(rep *wire.Reported, key string) error {
	if rep.ID != key || rep.ID != instanceID(rep.App, rep.Service, rep.Ordinal) {
		return fmt.Errorf("it is about %q", cut(rep.ID, maxName))
	}
	if !slices.Contains(life.States(), rep.State) {
		return fmt.Errorf("there is no state %q", cut(string(rep.State), maxName))
	}
	rep.Reason, rep.SLAViolation, rep.Failed = cut(rep.Reason, maxWords), cut(rep.SLAViolation, maxWords), cut(rep.Failed, maxWords)
	if rep.Room != nil {
		rep.Room.For = cut(rep.Room.For, maxWords)
	}
	rep.Address, rep.Peer, rep.Worker = cut(rep.Address, maxName), cut(rep.Peer, maxName), cut(rep.Worker, maxName)
	rep.Replaces, rep.Avoid, rep.Shadow, rep.Moving, rep.Leaving = "", nil, nil, nil, nil // of no concern to a root
	rep.Secrets = rep.Secrets[:min(len(rep.Secrets), maxSecrets)]
	for k := range rep.Secrets {
		h := &rep.Secrets[k]
		h.Name, h.Version, h.Next, h.Why = cut(h.Name, maxName), cut(h.Version, maxName), cut(h.Next, maxName), cut(h.Why, maxWords)
	}
	rep.Relay, rep.Addrs = cut(rep.Relay, maxName), rep.Addrs[:min(len(rep.Addrs), lease.MaxAddrs)]
	rep.Restarts, rep.Starts, rep.AllRestarts = max(0, rep.Restarts), max(0, rep.Starts), max(0, rep.AllRestarts)
	if rep.LastExit != nil {
		rep.LastExit.Signal = cut(rep.LastExit.Signal, maxName)
		rep.LastExit.Why = cut(rep.LastExit.Why, maxWords)
	}
	if extra := len(rep.History) - life.MaxHistory; extra > 0 {
		rep.History = rep.History[extra:]
	}
	for n := range rep.History {
		h := &rep.History[n]
		h.To, h.Tier, h.Why = wire.State(cut(string(h.To), maxName)), cut(h.Tier, maxName), cut(h.Why, maxWords)
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
