package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

var (
	_ rest.Users  = Backend{}
	_ rest.Tokens = Backend{}
	_ rest.Audit  = Backend{}
)

// Authenticate implements rest.Backend: a token is a user's, or was made by an
// administrator for a program.
func (b Backend) Authenticate(ctx context.Context, text string) (rest.Principal, error) {
	p, known, err := b.Book.Authenticate(ctx, text)
	if known || err != nil {
		return p, err
	}
	return b.Ledger.Bearer(ctx, text, b.Clock.Now())
}

// Tokens implements rest.Backend.
func (b Backend) Tokens(ctx context.Context) ([]apiv1.TokenView, error) { return b.Ledger.Tokens(ctx) }

// RevokeToken implements rest.Backend.
func (b Backend) RevokeToken(ctx context.Context, id string) ([]apiv1.TokenView, error) {
	return b.Ledger.RevokeToken(ctx, id)
}

// CreateUser implements rest.Backend. Roles are given in namespaces that are there.
func (b Backend) CreateUser(ctx context.Context, r apiv1.UserRequest) (apiv1.UserReply, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.UserReply, error) {
		if err := haveNamespaces(m, r.Roles); err != nil {
			return apiv1.UserReply{}, err
		}
		return b.Book.CreateUser(ctx, r)
	})
}

// Grant implements rest.Backend, as CreateUser does.
func (b Backend) Grant(ctx context.Context, name string, r wire.Roles) (apiv1.UserView, error) {
	return core.View2(b.Core, func(m *state.Model) (apiv1.UserView, error) {
		if err := haveNamespaces(m, r); err != nil {
			return apiv1.UserView{}, err
		}
		return b.Book.Grant(ctx, name, r)
	})
}

// haveNamespaces: who is given a role in a namespace that somebody makes later
// would be there before it.
func haveNamespaces(m *state.Model, r wire.Roles) error {
	for name := range r.Namespaces {
		if !namespaces.Has(m, name) {
			return namespaces.NotFound(name)
		}
	}
	return nil
}

// CreateToken implements rest.Backend.
func (b Backend) CreateToken(ctx context.Context, r apiv1.TokenRequest) (apiv1.TokenReply, error) {
	ttl := time.Duration(r.TTLSeconds) * time.Second
	if r.Gateway && r.Kind != "worker" {
		return apiv1.TokenReply{}, rest.NoGatewayToken(r.Kind)
	}
	if r.Uses > 1 {
		return apiv1.TokenReply{}, rest.OneUseToken()
	}
	switch r.Kind {
	case "cluster":
		return b.ClusterToken(ctx, r.Cluster, ttl)
	case "api":
		return b.Ledger.NewBearer(ctx, access.From(ctx).Name, ttl, b.Clock.Now())
	}
	return apiv1.TokenReply{}, rest.Elsewhere("making a token for a "+r.Kind, "its cluster")
}
