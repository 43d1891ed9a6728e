package agent

import "github.com/verge-edge/verge/internal/loop"

// problems are the engine's, and ours with it. The mutex is held.
func (a *Agent) problems() []string {
	var own []string
	if a.outdated != "" {
		own = append(own, a.outdated)
	}
	if a.noGateway {
		own = append(own, noGateway(a.joined.Cluster, a.opts.Name))
	}
	own = append(own, a.opts.Missing...)
	if own == nil {
		return a.info.Problems
	}
	return append(own, a.info.Problems...)
}

// noGateway says that this worker may not be a gateway with TLS, and what to do.
func noGateway(cluster, name string) string {
	return "gateway: the operator of cluster " + cluster + " has not allowed this worker to be one with TLS, so it is given no certificates: verge worker allow-gateway " + name
}

// gatewayRefused hears whether the cluster gives certificates to this gateway.
func (a *Agent) gatewayRefused(refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noGateway == refused {
		return
	}
	a.noGateway = refused
	if refused {
		a.log.Warn("the cluster refuses this worker as a gateway", "problem", noGateway(a.joined.Cluster, a.opts.Name))
	} else {
		a.log.Info("the cluster allows this worker to be a gateway with TLS")
	}
	loop.Poke(a.changed) // the cluster shows the problem
}
