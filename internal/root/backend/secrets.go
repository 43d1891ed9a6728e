package backend

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/secrets"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

var _ rest.Secrets = Backend{}

// SetSecret implements rest.Backend.
func (b Backend) SetSecret(ctx context.Context, namespace, name string, value []byte) (apiv1.SecretView, error) {
	switch {
	case !enroll.IsName(name):
		return apiv1.SecretView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63",
			"this cannot be the name of a secret", "%q", name)
	case len(value) == 0:
		return apiv1.SecretView{}, wire.Problemf(422, "empty-secret",
			"give it a value, or remove it: verge secret rm "+name, "the secret has no value",
			"secret %s of namespace %s", name, namespace)
	case len(value) > wire.MaxSecretBytes:
		return apiv1.SecretView{}, wire.Problemf(413, "secret-too-large",
			"keep large files elsewhere, and a key to them here", "the secret is too large",
			"secret %s of namespace %s: at most %d bytes", name, namespace, wire.MaxSecretBytes)
	}
	var rec record.Secret
	if err := core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) (err error) {
		now := t.Now
		m := t.Model
		if !namespaces.Has(m, namespace) {
			return namespaces.NotFound(namespace)
		}
		id := wire.SecretID(namespace, name)
		old := secrets.Table.Rows(m.DB)[id]
		if n := len(secrets.Names(m, namespace)); old == nil && n >= wire.MaxSecrets {
			return wire.Problemf(409, "too-many",
				"remove one that is not used: verge secret ls --namespace "+namespace, "there are too many secrets",
				"namespace %s has %d, at most %d", namespace, n, wire.MaxSecrets)
		}
		rec = record.Secret{
			SealedSecret: wire.SealedSecret{V: wire.Version, Namespace: namespace, Name: name, Version: wire.NewID(),
				Key: b.Key.ID()},
			Created: now, Updated: now, By: rest.Caller(ctx),
			Expires: secrets.Expires(value),
		}
		if old != nil {
			rec.Created = old.Created
		}
		if rec.Sealed, err = seal.Seal(b.Key.Public(), rec.Purpose(), value); err != nil {
			return err
		}
		secrets.Table.Put(t.Rows, id, &rec)
		t.Event(event.SecretSet, namespace, "secret %s set", name)
		return nil
	}); err != nil {
		return apiv1.SecretView{}, err
	}
	return core.View(b.Core, func(m *state.Model) apiv1.SecretView { return secrets.View(m, &rec) }), nil
}

// RemoveSecret implements rest.Backend.
func (b Backend) RemoveSecret(ctx context.Context, namespace, name string) (v apiv1.SecretView, err error) {
	err = core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		id := wire.SecretID(namespace, name)
		old := secrets.Table.Get(t.Rows, id)
		if old == nil {
			return wire.Problemf(404, "no-such-secret", "verge secret ls --namespace "+namespace,
				"there is no such secret", "%s is not known in namespace %s", name, namespace)
		}
		secrets.Table.Put(t.Rows, id, nil)
		t.Event(event.SecretRemoved, namespace, "secret %s removed", name)
		v = secrets.View(t.Model, old)
		return nil
	})
	return v, err
}

// Secrets implements rest.Backend.
func (b Backend) Secrets(_ context.Context, namespace string) ([]apiv1.SecretView, error) {
	return core.View2(b.Core, func(m *state.Model) ([]apiv1.SecretView, error) {
		out := []apiv1.SecretView{}
		for _, id := range records.SortedKeys(secrets.Table.Rows(m.DB)) {
			if s := secrets.Table.Rows(m.DB)[id]; namespace == "" || s.Namespace == namespace {
				out = append(out, secrets.View(m, s))
			}
		}
		return out, nil
	})
}
