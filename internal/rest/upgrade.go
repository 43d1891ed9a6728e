package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Upgrading is the part of a Backend that is about the program of a cluster's workers.
type Upgrading interface {
	// Upgrade says how far the last one is.
	Upgrade(ctx context.Context) (wire.UpgradeView, error)
	// StartUpgrade begins one, whose programs are objects of the cluster already; durable
	// when it returns.
	StartUpgrade(ctx context.Context, q wire.UpgradeRequest) (wire.UpgradeView, error)
	// ChangeUpgrade pauses, resumes or undoes it (wire.UpgradePause and so on); durable
	// when it returns.
	ChangeUpgrade(ctx context.Context, action string, q wire.UpgradeAction) (wire.UpgradeView, error)
}

type upgradeInput struct{ Body wire.UpgradeRequest }

type upgradeChange struct {
	Action string `path:"change" enum:"pause,resume,undo" doc:"what is to become of it"`
	Body   wire.UpgradeAction
}

func (in *upgradeInput) subject() (on, detail string) {
	for i, p := range in.Body.Programs {
		if i > 0 {
			detail += ", "
		}
		detail += p.OS + "/" + p.Arch + " " + p.SHA256[:min(len(p.SHA256), 64)]
	}
	return "system/upgrade", detail
}

func (in *upgradeChange) subject() (on, detail string) { return "system/upgrade", in.Action }

func (s *Server) registerUpgrading(api huma.API) {
	b := s.backend
	// Who upgrades workers has their machines: that is for administrators alone.
	register(s, api, op("get-upgrade", http.MethodGet, "/v1/upgrade", "How far the upgrade of the workers is", may(access.Manage, system)),
		func(ctx context.Context, _ *none) (wire.UpgradeView, error) { return b.Upgrade(ctx) })
	register(s, api, op("start-upgrade", http.MethodPost, "/v1/upgrade", "Upgrade the workers of the cluster, in waves", may(access.Manage, system)),
		func(ctx context.Context, in *upgradeInput) (wire.UpgradeView, error) {
			return b.StartUpgrade(ctx, in.Body)
		})
	register(s, api, op("change-upgrade", http.MethodPost, "/v1/upgrade/{change}", "Pause, resume or undo the upgrade of the workers", may(access.Manage, system)),
		func(ctx context.Context, in *upgradeChange) (wire.UpgradeView, error) {
			return b.ChangeUpgrade(ctx, in.Action, in.Body)
		})
}

// Upgrade says how far an upgrade is; see Upgrading.
func (c *Client) Upgrade(ctx context.Context) (wire.UpgradeView, error) {
	return get[wire.UpgradeView](ctx, c, call{path: "/v1/upgrade"})
}

// StartUpgrade begins one; see Upgrading.
func (c *Client) StartUpgrade(ctx context.Context, q wire.UpgradeRequest) (v wire.UpgradeView, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/upgrade", q, &v)
	return v, err
}

// ChangeUpgrade pauses, resumes or undoes it; see Upgrading.
func (c *Client) ChangeUpgrade(ctx context.Context, action string, q wire.UpgradeAction) (v wire.UpgradeView, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/upgrade/"+url.PathEscape(action), q, &v)
	return v, err
}
