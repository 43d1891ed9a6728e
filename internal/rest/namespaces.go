package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// Namespaces is the part of a backend that is about namespaces.
type Namespaces interface {
	// CreateNamespace fails if there is one of that name.
	CreateNamespace(ctx context.Context, r apiv1.NamespaceRequest) (apiv1.NamespaceView, error)
	// SetQuota replaces all bounds of a namespace.
	SetQuota(ctx context.Context, name string, q wire.Quota) (apiv1.NamespaceView, error)
	// SetStanding replaces what a namespace may claim beside others.
	SetStanding(ctx context.Context, name string, s wire.Standing) (apiv1.NamespaceView, error)
	// RemoveNamespace fails while anything belongs to it, and takes away all roles
	// in it.
	RemoveNamespace(ctx context.Context, name string) error
	Namespaces(ctx context.Context) ([]apiv1.NamespaceView, error)
	Namespace(ctx context.Context, name string) (apiv1.NamespaceView, error)
}

// Secrets is the part of a backend that is about secrets. No operation returns a
// value, and no error has one in it.
type Secrets interface {
	// SetSecret stores a value of 1 to wire.MaxSecretBytes bytes; durable when it
	// returns. Instances find it at their next start.
	SetSecret(ctx context.Context, namespace, name string, value []byte) (apiv1.SecretView, error)
	// RemoveSecret returns what was removed.
	RemoveSecret(ctx context.Context, namespace, name string) (apiv1.SecretView, error)
	// Secrets of a namespace, of all where it is "".
	Secrets(ctx context.Context, namespace string) ([]apiv1.SecretView, error)
}

// What the operations take.
type (
	// CreateNamespaceIn is what CreateNamespace takes.
	CreateNamespaceIn struct{ Body apiv1.NamespaceRequest }
	// NamespaceIn is what GetNamespace and DeleteNamespace take.
	NamespaceIn struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
	}
	// QuotaIn is what SetQuota takes.
	QuotaIn struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Body      wire.Quota
	}
	// StandingIn is what SetStanding takes.
	StandingIn struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Body      wire.Standing
	}
	// SecretIn is what DeleteSecret takes.
	SecretIn struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Secret    string `path:"secret" maxLength:"63" doc:"name of the secret"`
	}
	// SetSecretIn has the value as its body, so that no message about a body that
	// is not right can quote it.
	SetSecretIn struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Secret    string `path:"secret" maxLength:"63" doc:"name of the secret"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
	// OfNamespaceIn asks for a list.
	OfNamespaceIn struct {
		Namespace string `query:"namespace" maxLength:"63" doc:"only of this namespace"`
	}
)

// Subject implements Subjecter.
func (in *CreateNamespaceIn) Subject() (on, detail string) {
	return string(access.Namespace) + "/" + in.Body.Name, ""
}

// Operations on namespaces and secrets.
var (
	CreateNamespace = define("create-namespace", "POST /v1/namespaces", "Make a namespace", may(access.Manage, system),
		func(ctx context.Context, b Namespaces, in *CreateNamespaceIn) (apiv1.NamespaceView, error) {
			return b.CreateNamespace(ctx, in.Body)
		})
	ListNamespaces = define("list-namespaces", "GET /v1/namespaces", "List namespaces", each(OfNamespace),
		func(ctx context.Context, b Namespaces, _ *None) (Items[apiv1.NamespaceView], error) {
			return list(b.Namespaces(ctx))
		})
	GetNamespace = define("get-namespace", "GET /v1/namespaces/{namespace}", "A namespace, its quota and what it uses",
		may(access.See, namespace("namespace")),
		func(ctx context.Context, b Namespaces, in *NamespaceIn) (apiv1.NamespaceView, error) {
			return b.Namespace(ctx, in.Namespace)
		})
	SetQuota = define("set-quota", "PUT /v1/namespaces/{namespace}/quota", "Change the quota of a namespace",
		may(access.Manage, namespace("namespace")),
		func(ctx context.Context, b Namespaces, in *QuotaIn) (apiv1.NamespaceView, error) {
			return b.SetQuota(ctx, in.Namespace, in.Body)
		})
	SetStanding = define("set-standing", "PUT /v1/namespaces/{namespace}/standing", "Change what a namespace may claim beside others",
		may(access.Manage, namespace("namespace")),
		func(ctx context.Context, b Namespaces, in *StandingIn) (apiv1.NamespaceView, error) {
			return b.SetStanding(ctx, in.Namespace, in.Body)
		})
	DeleteNamespace = define("delete-namespace", "DELETE /v1/namespaces/{namespace}", "Remove a namespace that nothing belongs to",
		may(access.Manage, namespace("namespace")),
		func(ctx context.Context, b Namespaces, in *NamespaceIn) (None, error) {
			return None{}, b.RemoveNamespace(ctx, in.Namespace)
		})

	SetSecret = define("set-secret", "PUT /v1/namespaces/{namespace}/secrets/{secret}", "Set the value of a secret",
		may(access.Secret, namespace("namespace")),
		func(ctx context.Context, b Secrets, in *SetSecretIn) (apiv1.SecretView, error) {
			return b.SetSecret(ctx, in.Namespace, in.Secret, in.RawBody)
		}, maxBody(wire.MaxSecretBytes+1024)) // a little too much gets the better message
	DeleteSecret = define("delete-secret", "DELETE /v1/namespaces/{namespace}/secrets/{secret}", "Remove a secret",
		may(access.Secret, namespace("namespace")),
		func(ctx context.Context, b Secrets, in *SecretIn) (apiv1.SecretView, error) {
			return b.RemoveSecret(ctx, in.Namespace, in.Secret)
		})
	// The names of secrets alone tell something: only who may use them sees them.
	ListSecrets = define("list-secrets", "GET /v1/secrets", "List secrets, without their values",
		eachTo(access.Secret, func(v apiv1.SecretView) access.Object {
			return access.Object{Kind: access.Secrets, Name: v.Name, Namespace: v.Namespace}
		}),
		func(ctx context.Context, b Secrets, in *OfNamespaceIn) (Items[apiv1.SecretView], error) {
			return list(b.Secrets(ctx, in.Namespace))
		})
)

// OfNamespace is what a namespace is for who may see it.
func OfNamespace(v apiv1.NamespaceView) access.Object { return ofNamespaceNamed(v.Name) }

func ofNamespaceNamed(name string) access.Object {
	return access.Object{Kind: access.Namespace, Name: name, Namespace: name}
}
