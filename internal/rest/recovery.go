package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Recoveries is the part of a Backend that is about what was restored from a backup.
type Recoveries interface {
	// Recovery says how far it is.
	Recovery(ctx context.Context) (wire.RecoveryView, error)
	// FinishRecovery gives one of those up that are still to be asked, or ("") ends
	// the recovery as a whole.
	FinishRecovery(ctx context.Context, peer string) error
}

type recoveryInput struct {
	Peer string `query:"peer" maxLength:"63" doc:"only of this one; none: as a whole"`
}

func (s *Server) registerRecovery(api huma.API) {
	b := s.backend
	register(s, api, op("get-recovery", http.MethodGet, "/v1/recovery", "How far what was restored from a backup is", may(access.Manage, system)),
		func(ctx context.Context, _ *none) (wire.RecoveryView, error) { return b.Recovery(ctx) })
	register(s, api, op("finish-recovery", http.MethodDelete, "/v1/recovery", "Go on without asking what happened since the backup", may(access.Manage, system)),
		func(ctx context.Context, in *recoveryInput) (none, error) {
			return none{}, b.FinishRecovery(ctx, in.Peer)
		})
}

// Recovery says how far what was restored is; see Recoveries.
func (c *Client) Recovery(ctx context.Context) (wire.RecoveryView, error) {
	return get[wire.RecoveryView](ctx, c, call{path: "/v1/recovery"})
}

// FinishRecovery ends it; see Recoveries.
func (c *Client) FinishRecovery(ctx context.Context, peer string) error {
	q := url.Values{}
	if peer != "" {
		q.Set("peer", peer)
	}
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/recovery", query: q}, nil)
}

func (in *recoveryInput) subject() (on, detail string) {
	if in.Peer == "" {
		return "system/recovery", "as a whole"
	}
	return "cluster/" + in.Peer, "not asked any more"
}
