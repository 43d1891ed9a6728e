package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/verge-edge/verge/internal/wire"
)

// SetSecret sets the value of a secret; see Vault.
func (c *Client) SetSecret(ctx context.Context, namespace, name string, value []byte) (v wire.SecretView, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: secretPath(namespace, name), body: value, contentType: "application/octet-stream"}, &v)
	return v, err
}

// RemoveSecret removes a secret; see Vault.
func (c *Client) RemoveSecret(ctx context.Context, namespace, name string) (v wire.SecretView, err error) {
	err = c.do(ctx, call{method: http.MethodDelete, path: secretPath(namespace, name)}, &v)
	return v, err
}

// Secrets of a namespace, of all that may be seen where it is ""; see Vault.
func (c *Client) Secrets(ctx context.Context, namespace string) ([]wire.SecretView, error) {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	return getList[wire.SecretView](ctx, c, "/v1/secrets", q)
}

func secretPath(namespace, name string) string {
	return namespacePath(namespace) + "/secrets/" + url.PathEscape(name)
}
