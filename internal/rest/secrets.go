package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Vault is the part of a Backend that is about secrets. No operation returns a
// value, and no error has one in it.
type Vault interface {
	// SetSecret stores a value of 1 to wire.MaxSecretBytes bytes; durable when it
	// returns. Instances find it at their next start.
	SetSecret(ctx context.Context, namespace, name string, value []byte) (wire.SecretView, error)
	// RemoveSecret returns what was removed.
	RemoveSecret(ctx context.Context, namespace, name string) (wire.SecretView, error)
	// Secrets of a namespace, of all where it is "".
	Secrets(ctx context.Context, namespace string) ([]wire.SecretView, error)
}

type (
	secretInput struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Secret    string `path:"secret" maxLength:"63" doc:"name of the secret"`
	}
	// setSecretInput has the value as its body, so that no message about a body that
	// is not right can quote it.
	setSecretInput struct {
		Namespace string `path:"namespace" maxLength:"63" doc:"name of the namespace"`
		Secret    string `path:"secret" maxLength:"63" doc:"name of the secret"`
		RawBody   []byte `contentType:"application/octet-stream"`
	}
	secretsInput struct {
		Namespace string `query:"namespace" maxLength:"63" doc:"only of this namespace"`
	}
)

func (s *Server) registerSecrets(api huma.API) {
	b := s.backend
	set := op("set-secret", http.MethodPut, "/v1/namespaces/{namespace}/secrets/{secret}", "Set the value of a secret", may(access.Secret, namespace("namespace")))
	set.MaxBodyBytes = wire.MaxSecretBytes + 1024 // a little too much gets the better message
	register(s, api, set, func(ctx context.Context, in *setSecretInput) (wire.SecretView, error) {
		return b.SetSecret(ctx, in.Namespace, in.Secret, in.RawBody)
	})
	register(s, api, op("delete-secret", http.MethodDelete, "/v1/namespaces/{namespace}/secrets/{secret}", "Remove a secret", may(access.Secret, namespace("namespace"))),
		func(ctx context.Context, in *secretInput) (wire.SecretView, error) {
			return b.RemoveSecret(ctx, in.Namespace, in.Secret)
		})
	register(s, api, op("list-secrets", http.MethodGet, "/v1/secrets", "List secrets, without their values", part(usableSecrets)),
		func(ctx context.Context, in *secretsInput) (items[wire.SecretView], error) {
			return list(b.Secrets(ctx, in.Namespace))
		})
}

// usableSecrets are those of namespaces in which who asks may use secrets: their
// names alone tell something.
func usableSecrets(s *Server, who access.Who, out items[wire.SecretView]) items[wire.SecretView] {
	kept := []wire.SecretView{}
	for _, v := range out.Items {
		if access.May(who, access.Secret, s.here(access.Object{Kind: access.Secrets, Name: v.Name, Namespace: v.Namespace})) == nil {
			kept = append(kept, v)
		}
	}
	out.Items = kept
	return out
}
