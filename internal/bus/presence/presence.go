package presence

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus"
)

// Presence knows which nodes have a connection to the server, from the events
// that the server publishes in its system account. A node that reconnects
// before its old connection is found dead has two for a while; it is present
// while it has any.
type Presence struct {
	log *slog.Logger
	// who names the node of a connection, "" for one that is of no interest.
	who func(*server.ClientInfo) string

	mu sync.Mutex
	// Guarded by mu.
	open      map[string]map[uint64]struct{} // connection ids by node
	gone      map[uint64]struct{}            // ended before their start was heard of
	listeners []func(node string, present bool)
}

const (
	// maxGone bounds presence.gone; ends without a start are rare.
	maxGone = 1024
	// maxSeed is beyond what can connect in the first moments of a server.
	maxSeed = 100_000
)

// New knows nobody yet. who names the node of a connection, "" for one that is of no interest.
func New(log *slog.Logger, who func(*server.ClientInfo) string) *Presence {
	return &Presence{log: log, who: who, open: map[string]map[uint64]struct{}{}, gone: map[uint64]struct{}{}}
}

// Watch subscribes to the events of an account (its public key, or "*") with a
// connection into the system account.
func (p *Presence) Watch(system bus.Conn, account string) error {
	// One subscription for both kinds keeps them in order.
	_, err := system.Subscribe("$SYS.ACCOUNT."+account+".*", func(_ context.Context, m bus.Msg) {
		up := strings.HasSuffix(m.Subject, ".CONNECT")
		if !up && !strings.HasSuffix(m.Subject, ".DISCONNECT") {
			return
		}
		var e struct {
			Client server.ClientInfo `json:"client"`
		}
		if err := json.Unmarshal(m.Data, &e); err != nil {
			p.log.Warn("event of the bus server is not readable", "error", err)
			return
		}
		p.Set(p.who(&e.Client), e.Client.ID, up)
	})
	if err != nil {
		return fmt.Errorf("listen to connection events: %w", err)
	}
	return nil
}

// Seed adds the clients and leaf links that were there before watch.
func (p *Presence) Seed(ns *server.Server) error {
	clients, err := ns.Connz(&server.ConnzOptions{Username: true, Limit: maxSeed})
	if err != nil {
		return fmt.Errorf("list connections: %w", err)
	}
	for _, c := range clients.Conns {
		p.Set(p.who(&server.ClientInfo{ID: c.Cid, Jwt: c.JWT, Account: c.Account, Kind: c.Kind}), c.Cid, true)
	}
	return nil
}

// Set notes the start or end of a connection and tells the listeners, in order.
func (p *Presence) Set(node string, id uint64, up bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if node == "" {
		return
	}
	before := len(p.open[node]) > 0
	if up {
		if _, ended := p.gone[id]; ended {
			delete(p.gone, id)
			return
		}
		if p.open[node] == nil {
			p.open[node] = map[uint64]struct{}{}
		}
		p.open[node][id] = struct{}{}
	} else {
		if _, known := p.open[node][id]; !known && len(p.gone) < maxGone {
			p.gone[id] = struct{}{}
		}
		delete(p.open[node], id)
		if len(p.open[node]) == 0 {
			delete(p.open, node)
		}
	}
	if after := len(p.open[node]) > 0; after != before {
		for _, fn := range p.listeners {
			fn(node, after)
		}
	}
}

// Listen calls fn for every node that is present, and then at each change.
func (p *Presence) Listen(fn func(node string, present bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.open {
		fn(node, true)
	}
	p.listeners = append(p.listeners, fn)
}

// With calls fn with whether a node is present; no change is told meanwhile.
func (p *Presence) With(node string, fn func(present bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn(len(p.open[node]) > 0)
}

// IDs returns the connections of a node.
func (p *Presence) IDs(node string) []uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []uint64
	for id := range p.open[node] {
		ids = append(ids, id)
	}
	return ids
}
