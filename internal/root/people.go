package root

import (
	"context"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Authenticate implements rest.Backend: a token is a user's, or was made by an
// administrator for a program.
func (b backend) Authenticate(ctx context.Context, text string) (rest.Principal, error) {
	p, known, err := b.Book.Authenticate(ctx, text)
	if known || err != nil {
		return p, err
	}
	return b.ledger.Bearer(ctx, text, b.clock.Now())
}

// Tokens and RevokeToken implement rest.Backend.
func (b backend) Tokens(ctx context.Context) ([]wire.TokenView, error) { return b.ledger.Tokens(ctx) }

func (b backend) RevokeToken(ctx context.Context, id string) ([]wire.TokenView, error) {
	return b.ledger.RevokeToken(ctx, id)
}

// CreateUser implements rest.Backend. Roles are given in namespaces that are there.
func (b backend) CreateUser(ctx context.Context, r wire.UserRequest) (wire.UserReply, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.m.haveNamespaces(r.Roles); err != nil {
		return wire.UserReply{}, err
	}
	return b.Book.CreateUser(ctx, r)
}

// Grant implements rest.Backend, as CreateUser does.
func (b backend) Grant(ctx context.Context, name string, r wire.Roles) (wire.UserView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.m.haveNamespaces(r); err != nil {
		return wire.UserView{}, err
	}
	return b.Book.Grant(ctx, name, r)
}

// haveNamespaces: who is given a role in a namespace that somebody makes later
// would be there before it.
func (m *model) haveNamespaces(r wire.Roles) error {
	for name := range r.Namespaces {
		if !m.hasNamespace(name) {
			return noNamespace(name)
		}
	}
	return nil
}

// forgetNamespace removes a namespace with all roles in it, so that who has one
// now has none in a namespace of that name that is made later. The mutex is held.
func (b backend) forgetNamespace(ctx context.Context, name string) error {
	return b.LeaveNamespace(ctx, name, bus.Del(keyNamespace+name), bus.Del(keyPublish+name))
}
