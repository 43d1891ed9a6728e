package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Spaces is the part of a Backend that is about namespaces.
type Spaces interface {
	// CreateNamespace fails if there is one of that name.
	CreateNamespace(ctx context.Context, r wire.NamespaceRequest) (wire.NamespaceView, error)
	// SetQuota replaces all bounds of a namespace.
	SetQuota(ctx context.Context, name string, q wire.Quota) (wire.NamespaceView, error)
	// SetStanding replaces what a namespace may claim beside others.
	SetStanding(ctx context.Context, name string, s wire.Standing) (wire.NamespaceView, error)
	// RemoveNamespace fails while anything belongs to it, and takes away all roles
	// in it.
	RemoveNamespace(ctx context.Context, name string) error
	Namespaces(ctx context.Context) ([]wire.NamespaceView, error)
	Namespace(ctx context.Context, name string) (wire.NamespaceView, error)
}

type (
	createNamespaceInput struct{ Body wire.NamespaceRequest }
	namespaceInput       struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
	}
	quotaInput struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Body      wire.Quota
	}
	standingInput struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Body      wire.Standing
	}
)

func ofNamespace(v wire.NamespaceView) access.Object {
	return access.Object{Kind: access.Namespace, Name: v.Name, Namespace: v.Name}
}

func (s *Server) registerNamespaces(api huma.API) {
	b := s.backend
	register(s, api, op("create-namespace", http.MethodPost, "/v1/namespaces", "Make a namespace", may(access.Manage, system)),
		func(ctx context.Context, in *createNamespaceInput) (wire.NamespaceView, error) {
			return b.CreateNamespace(ctx, in.Body)
		})
	register(s, api, op("list-namespaces", http.MethodGet, "/v1/namespaces", "List namespaces", each(ofNamespace)),
		func(ctx context.Context, _ *none) (items[wire.NamespaceView], error) { return list(b.Namespaces(ctx)) })
	register(s, api, op("get-namespace", http.MethodGet, "/v1/namespaces/{namespace}", "A namespace, its quota and what it uses", may(access.See, namespace("namespace"))),
		func(ctx context.Context, in *namespaceInput) (wire.NamespaceView, error) {
			return b.Namespace(ctx, in.Namespace)
		})
	register(s, api, op("set-quota", http.MethodPut, "/v1/namespaces/{namespace}/quota", "Change the quota of a namespace", may(access.Manage, namespace("namespace"))),
		func(ctx context.Context, in *quotaInput) (wire.NamespaceView, error) {
			return b.SetQuota(ctx, in.Namespace, in.Body)
		})
	register(s, api, op("set-standing", http.MethodPut, "/v1/namespaces/{namespace}/standing", "Change what a namespace may claim beside others", may(access.Manage, namespace("namespace"))),
		func(ctx context.Context, in *standingInput) (wire.NamespaceView, error) {
			return b.SetStanding(ctx, in.Namespace, in.Body)
		})
	register(s, api, op("delete-namespace", http.MethodDelete, "/v1/namespaces/{namespace}", "Remove a namespace that nothing belongs to", may(access.Manage, namespace("namespace"))),
		func(ctx context.Context, in *namespaceInput) (none, error) {
			return none{}, b.RemoveNamespace(ctx, in.Namespace)
		})
}
