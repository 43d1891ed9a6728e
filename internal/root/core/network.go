package core

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// OpenNetwork makes the network the first time, and takes over other pools as long
// as nobody has any of the old ones. A pool that is not given stays what it is.
func OpenNetwork(ctx context.Context, c *Core, prefix, pool, services netip.Prefix) error {
	return View(c, func(m *state.Model) error {
		var next grant.Network
		if old := m.ServiceNetwork(); old != nil {
			next = *old
			next.Prefix, next.Pool, next.Services = orElse(prefix, old.Prefix), orElse(pool, old.Pool),
				orElse(services, old.Services)
		} else {
			var random [5]byte
			rand.Read(random[:]) // it never fails
			next = grant.NewNetwork(random, orElse(pool, lease.DefaultPool), orElse(services, lease.DefaultServices))
			next.Prefix = orElse(prefix, next.Prefix)
		}
		if p := next.Prefix; p.Bits() != 48 || p != p.Masked() || p.Addr().As16()[0] != 0xfd {
			return wire.Problemf(0, "bad-prefix",
				"write fd, 40 bits of your choice and /48, such as fd12:3456:789a::/48, or leave --network-prefix out",
				"this prefix of addresses cannot be used", "%s", p)
		}
		if err := lease.CheckPools(next.Pool, next.Services); err != nil {
			return wire.Problemf(0, "bad-pool",
				"choose others: --network-pool 10.128.0.0/9 --network-services 10.30.0.0/16",
				"these pools of addresses cannot be used", "%v", err)
		}
		old := m.ServiceNetwork()
		if old != nil && old.Prefix == next.Prefix && old.Pool == next.Pool && old.Services == next.Services {
			return nil
		}
		if old != nil && old.Prefix != next.Prefix && len(state.LeaseTable.Rows(m.DB)) > 0 {
			name := records.SortedKeys(state.LeaseTable.Rows(m.DB))[0]
			return wire.Problemf(0, "prefix-in-use",
				"start it with --network-prefix "+old.Prefix.String()+" or without; to change it remove the clusters "+
					"first (verge remove cluster/NAME), and let them join again with empty data directories",
				"the prefix of addresses is in use", "cluster %s has some of %s", name, old.Prefix)
		}
		if old != nil && old.Pool != next.Pool {
			for _, name := range records.SortedKeys(state.LeaseTable.Rows(m.DB)) {
				if len(state.LeaseTable.Rows(m.DB)[name].Subnets) > 0 {
					return wire.Problemf(0, "pool-in-use",
						"start it with --network-pool "+old.Pool.String()+"; to change it remove the clusters first "+
							"(verge remove cluster/NAME), and let them join again with empty data directories",
						"the pool of addresses is in use", "cluster %s has some of %s", name, old.Pool)
				}
			}
			next.Rests = nil
			for _, r := range old.Rests {
				r.Subnets = nil // of the old pool
				next.Rests = append(next.Rests, r)
			}
		}
		t := m.Begin()
		state.NetworkTable.Put(t.Rows, "", &next)
		if err := c.Keeper.Whole(ctx, t); err != nil {
			return fmt.Errorf("storing the service network: %w", err)
		}
		loop.Poke(c.Wake)
		return nil
	})
}

func orElse(p, other netip.Prefix) netip.Prefix {
	if p.IsValid() {
		return p
	}
	return other
}

// NetworkProblems are what people must know about the network.
func NetworkProblems(c *Core) []string {
	return View(c, func(m *state.Model) []string {
		if m.ServiceNetwork() == nil {
			return nil
		}
		return m.ServiceNetwork().Short(state.LeaseTable.Rows(m.DB), netlease.Needs(m), m.Mark() != nil)
	})
}
