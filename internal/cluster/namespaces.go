package cluster

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// Namespaces are the root's: a cluster knows only which one an application that
// it has a share of belongs to.
func ofRoot() error { return rest.Elsewhere("a namespace", "the root") }

// CreateNamespace implements rest.Backend.
func (b backend) CreateNamespace(context.Context, wire.NamespaceRequest) (wire.NamespaceView, error) {
	return wire.NamespaceView{}, ofRoot()
}

// SetQuota implements rest.Backend.
func (b backend) SetQuota(context.Context, string, wire.Quota) (wire.NamespaceView, error) {
	return wire.NamespaceView{}, ofRoot()
}

// SetStanding implements rest.Backend.
func (b backend) SetStanding(context.Context, string, wire.Standing) (wire.NamespaceView, error) {
	return wire.NamespaceView{}, ofRoot()
}

// RemoveNamespace implements rest.Backend.
func (b backend) RemoveNamespace(context.Context, string) error { return ofRoot() }

// Namespaces implements rest.Backend.
func (b backend) Namespaces(context.Context) ([]wire.NamespaceView, error) { return nil, ofRoot() }

// Namespace implements rest.Backend.
func (b backend) Namespace(context.Context, string) (wire.NamespaceView, error) {
	return wire.NamespaceView{}, ofRoot()
}
