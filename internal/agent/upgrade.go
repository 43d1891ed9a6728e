package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/agent/upgrader"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/objects/remote"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Upgrade lets the engine of the worker in dir hand over to another program, "" is this
// one. Its agent, if it runs, goes on. An error means that the former program goes on.
func Upgrade(ctx context.Context, dir string, q engineapi.EngineUpgrade) (engineapi.EngineUpgraded, error) {
	if q.Program == "" {
		self, err := os.Executable()
		if err != nil {
			return engineapi.EngineUpgraded{}, fmt.Errorf("finding this program: %w", err)
		}
		q.Program = self
	}
	program, err := filepath.Abs(q.Program)
	if err != nil {
		return engineapi.EngineUpgraded{}, fmt.Errorf("finding the program: %w", err)
	}
	q.Program = program
	engine := engineclient.NewRemote(dir)
	defer engine.Close()
	if _, err := engine.State(ctx, 0, 0); err != nil {
		return engineapi.EngineUpgraded{},
			wire.Problemf(0, "not-running", "start it with the new program: verge worker", "this worker does not run",
				"no engine answers in %s: %v", dir, err)
	}
	done, err := engine.Upgrade(ctx, q)
	if errors.Is(err, engineclient.ErrNotThere) {
		return done, wire.Problemf(0, "too-old", "end the agent, then verge worker stop, then start the new version", "this engine cannot be upgraded while it runs", "its version cannot hand over to another program")
	}
	return done, err
}

// Superseded notes that another program could not go on in the place of this one, in the
// worker's folder dir: what runs goes on.
func Superseded(dir string, why error) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	return upgrader.Superseded(dir, why)
}

// clusterObjects are those of the cluster, over its HTTP interface.
func (a *Agent) clusterObjects() *remote.Remote {
	return remote.New(func() (*tls.Config, error) { return a.id.ClientTLS(a.joined.LinkName), nil },
		func() []string { return enroll.APIAddrs(*a.current.Load(), a.joined.Link, rpc.ClusterAPIPort) })
}

// upgrading answers rpc.AskUpgrade.
func (a *Agent) upgrading(q *rpc.UpgradeAsk) rpc.UpgradeTry {
	a.mu.Lock()
	version := a.info.Version
	a.mu.Unlock()
	return a.upgrader.Ask(q, a.opts.Engine != nil, version)
}
