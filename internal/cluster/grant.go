package cluster

import (
	"context"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"time"
)

// AllowGateway implements rest.Backend.
func (b backend) AllowGateway(ctx context.Context, cluster, name string) (wire.GatewayGrant, error) {
	return b.setGateway(ctx, cluster, name, wire.GatewayGrant{Allowed: true})
}

// DenyGateway implements rest.Backend.
func (b backend) DenyGateway(ctx context.Context, cluster, name string) error {
	_, err := b.setGateway(ctx, cluster, name, wire.GatewayGrant{})
	return err
}

// setGateway stores whether a worker may be a gateway with TLS, where that is new.
func (b backend) setGateway(ctx context.Context, cluster, name string, g wire.GatewayGrant) (wire.GatewayGrant, error) {
	if cluster != b.name {
		return g, rest.ElsewhereAt("operating a worker", cluster)
	}
	return b.grant(ctx, name, g, rest.Caller(ctx), time.Now())
}

// grant is setGateway at the cluster itself.
func (c *core) grant(ctx context.Context, name string, g wire.GatewayGrant, by string, now time.Time) (wire.GatewayGrant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return g, cordonUnstored(err)
	}
	w := c.m.Workers[name]
	if w == nil {
		return g, c.noWorker(name)
	}
	if w.Gateway.May() == g.Allowed {
		if w.Gateway != nil {
			g = *w.Gateway
		}
		return g, nil
	}
	g.By, g.At = by, now.Round(0)
	next := w.WorkerRecord
	next.Gateway = &g
	if err := c.keepWorker(ctx, name, next); err != nil {
		return g, cordonUnstored(err)
	}
	what := "may be a gateway with TLS"
	if !g.Allowed {
		what = "may be no gateway with TLS any more"
	}
	if by != "" {
		what += ", by " + by
	}
	c.events.Add(now, c.m.Tier(), "worker/"+c.name+"/"+name, what)
	c.log.Info("a worker "+what, "worker", name)
	loop.Poke(c.wake)
	loop.Poke(c.upChanged) // a cluster without gateways is given no certificates
	c.nudge(name)
	return g, nil
}
