package root

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of secrets in the root's store.
const (
	keySecret = "secret." // + namespace.name: wire.Secret, sealed for the root
	keySealed = "seal."   // + cluster.namespace.name: wire.SealedSecret, for the cluster
)

// vault is the part of a model that is about secrets. Values are not in it.
type vault struct {
	secrets map[string]*wire.Secret       // by namespace.name
	sealed  map[string]*wire.SealedSecret // by cluster.namespace.name
	// key is the id of the root's own key.
	key string
}

// readable says whether the root can open a secret of its own.
func (v *vault) readable(s *wire.Secret) bool { return s != nil && s.Key == v.key }

// secrets decides which secrets each cluster is given: those that a service needs
// of which it has a share. One is sealed anew only where its value or the key of
// the cluster is another; nobody could compare what is sealed. The tx has them
// without their values, see core.close.
func (t *tx) secrets() {
	want := map[string]bool{}
	for key, s := range records.Merged(t.m.shares, t.shares) {
		if s.Spec == nil {
			continue
		}
		cluster, _, _ := strings.Cut(key, ".")
		for _, name := range s.Spec.Secrets() {
			id := wire.SecretID(wire.ShareNamespace(s), name)
			want[cluster+"."+id] = true
			t.give(cluster, id)
		}
	}
	// Gateways publish what runs anywhere, and only their clusters are given what that
	// needs. What a cluster has stays until it has been heard of.
	certs := t.certificates()
	for _, cluster := range records.SortedKeys(t.m.clusters) {
		c := t.m.clusters[cluster]
		for _, id := range certs {
			key := cluster + "." + id
			switch {
			case c.agg == nil && t.m.vault.sealed[key] != nil:
				want[key] = true
			case c.agg != nil && c.agg.Gateways > 0:
				want[key] = true
				t.give(cluster, id)
			}
		}
	}
	for key := range t.m.vault.sealed {
		if !want[key] {
			t.sealFor(key, nil)
		}
	}
}

// certificates are the secrets with those of all hosts that are published.
func (t *tx) certificates() (ids []string) {
	for _, name := range records.SortedKeys(t.m.apps) {
		app := t.m.apps[name]
		if !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			for _, secret := range app.Spec.Services[svc].IngressSecrets() {
				ids = append(ids, wire.SecretID(wire.NamespaceOf(app.Spec), secret))
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// give lets a cluster have a secret as it is now.
func (t *tx) give(cluster, id string) {
	key := cluster + "." + id
	secret, old := t.m.vault.secrets[id], t.m.vault.sealed[key]
	if !t.m.vault.readable(secret) {
		if secret == nil && old != nil && !records.Among(t.m.unread, keySecret+id) {
			t.sealFor(key, nil)
		}
		return // what cannot be read here may still be read there
	}
	c := t.m.clusters[cluster]
	if c == nil || c.agg == nil {
		return // its key is not known yet; what it has stays
	}
	to, err := seal.ID(c.agg.SealKey)
	if err != nil || old.Fits(secret.Version, to) {
		return
	}
	t.sealFor(key, &wire.SealedSecret{V: wire.Version, Namespace: secret.Namespace, Name: secret.Name, Version: secret.Version, Key: to})
}

func (t *tx) sealFor(key string, s *wire.SealedSecret) {
	t.seals[key] = s
	cluster, _, _ := strings.Cut(key, ".")
	t.nudge[cluster] = true
}

// close puts the values into what a step has decided to give. A value that cannot
// be sealed is left out, and tried again with the next pass. The mutex is held.
func (c *core) close(ctx context.Context, t *tx) {
	for _, key := range records.SortedKeys(t.seals) {
		s := t.seals[key]
		if s == nil {
			continue
		}
		cluster, id, _ := strings.Cut(key, ".")
		value, err := c.open(ctx, id, s.Version)
		if err == nil {
			s.Sealed, err = seal.Seal(c.m.clusters[cluster].agg.SealKey, s.Purpose(), value)
		}
		if err != nil {
			delete(t.seals, key)
			c.log.Error("a secret cannot be sealed", "secret", id, "cluster", cluster, "error", err)
		}
	}
}

// open returns the value of a secret.
func (c *core) open(ctx context.Context, id, version string) ([]byte, error) {
	e, err := c.store.Get(ctx, keySecret+id)
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	var rec wire.Secret
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if rec.Version != version {
		return nil, errors.New("it was changed meanwhile")
	}
	return c.key.Open(rec.Purpose(), rec.Sealed)
}

// SetSecret implements rest.Backend.
func (b backend) SetSecret(ctx context.Context, namespace, name string, value []byte) (wire.SecretView, error) {
	switch {
	case !enroll.IsName(name):
		return wire.SecretView{}, wire.Problemf(422, "bad-name", "letters a-z, digits and -, at most 63", "this cannot be the name of a secret", "%q", name)
	case len(value) == 0:
		return wire.SecretView{}, wire.Problemf(422, "empty-secret", "give it a value, or remove it: verge secret rm "+name, "the secret has no value", "secret %s of namespace %s", name, namespace)
	case len(value) > wire.MaxSecretBytes:
		return wire.SecretView{}, wire.Problemf(413, "secret-too-large", "keep large files elsewhere, and a key to them here", "the secret is too large", "secret %s of namespace %s: at most %d bytes", name, namespace, wire.MaxSecretBytes)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.SecretView{}, unstored(err)
	}
	if !b.m.hasNamespace(namespace) {
		return wire.SecretView{}, noNamespace(namespace)
	}
	id := wire.SecretID(namespace, name)
	old := b.m.vault.secrets[id]
	if n := len(b.m.vault.of(namespace)); old == nil && n >= wire.MaxSecrets {
		return wire.SecretView{}, wire.Problemf(409, "too-many", "remove one that is not used: verge secret ls --namespace "+namespace, "there are too many secrets", "namespace %s has %d, at most %d", namespace, n, wire.MaxSecrets)
	}
	rec := wire.Secret{
		SealedSecret: wire.SealedSecret{V: wire.Version, Namespace: namespace, Name: name, Version: wire.NewID(), Key: b.key.ID()},
		Created:      now, Updated: now, By: rest.Caller(ctx),
		Expires: expires(value),
	}
	if old != nil {
		rec.Created = old.Created
	}
	var err error
	if rec.Sealed, err = seal.Seal(b.key.Public(), rec.Purpose(), value); err != nil {
		return wire.SecretView{}, err
	}
	t := b.m.begin()
	secretTable.Put(t.rows, id, &rec)
	if err := b.keeper.Whole(ctx, t); err != nil {
		return wire.SecretView{}, unstored(err)
	}
	b.events.Add(now, tier, "namespace/"+namespace, "secret "+name+" set")
	loop.Poke(b.wake)
	b.notify()
	return b.m.secretView(&rec), nil
}

// expires is when the certificate of a host in a value does, zero where there is none:
// the first one in PEM.
func expires(value []byte) time.Time {
	for block, rest := pem.Decode(value); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return time.Time{}
		}
		return cert.NotAfter.UTC()
	}
	return time.Time{}
}

// RemoveSecret implements rest.Backend.
func (b backend) RemoveSecret(ctx context.Context, namespace, name string) (wire.SecretView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if err := b.reload(ctx, now); err != nil {
		return wire.SecretView{}, unstored(err)
	}
	id := wire.SecretID(namespace, name)
	old := b.m.vault.secrets[id]
	if old == nil {
		return wire.SecretView{}, wire.Problemf(404, "no-such-secret", "verge secret ls --namespace "+namespace, "there is no such secret", "%s is not known in namespace %s", name, namespace)
	}
	t := b.m.begin()
	secretTable.Put(t.rows, id, nil)
	if err := b.keeper.Whole(ctx, t); err != nil {
		return wire.SecretView{}, unstored(err)
	}
	b.events.Add(now, tier, "namespace/"+namespace, "secret "+name+" removed")
	loop.Poke(b.wake)
	b.notify()
	return b.m.secretView(old), nil
}

// Secrets implements rest.Backend.
func (b backend) Secrets(_ context.Context, namespace string) ([]wire.SecretView, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []wire.SecretView{}
	for _, id := range records.SortedKeys(b.m.vault.secrets) {
		if s := b.m.vault.secrets[id]; namespace == "" || s.Namespace == namespace {
			out = append(out, b.m.secretView(s))
		}
	}
	return out, nil
}

// of are the secrets of a namespace.
func (v *vault) of(namespace string) (names []string) {
	for _, s := range v.secrets {
		if s.Namespace == namespace {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// secretView is what people are shown of a secret.
func (m *model) secretView(s *wire.Secret) wire.SecretView {
	v := wire.SecretView{Namespace: s.Namespace, Name: s.Name, Created: s.Created, Updated: s.Updated, By: s.By, Expires: s.Expires}
	if !m.vault.readable(s) {
		v.Problem = "it was sealed with another key than the root has now: set it again"
	}
	for _, name := range records.SortedKeys(m.apps) {
		app := m.apps[name]
		if wire.NamespaceOf(app.Spec) != s.Namespace || !app.Deleting.IsZero() {
			continue
		}
		for _, svc := range app.Spec.ServiceNames() {
			service := app.Spec.Services[svc]
			if slices.Contains(service.Secrets(), s.Name) || slices.Contains(service.IngressSecrets(), s.Name) {
				v.UsedBy = append(v.UsedBy, name+"."+svc)
			}
			for _, secret := range service.EnvSecrets {
				if secret == s.Name {
					v.Variable = append(v.Variable, name+"."+svc)
					break
				}
			}
		}
	}
	m.holders(&v, s.Version)
	return v
}

// maxRestart bounds how many instances are named that need a restart.
const maxRestart = 100

// holders counts the instances that have a secret, and those that have its newest
// value.
func (m *model) holders(v *wire.SecretView, version string) {
	used := map[string]bool{}
	for _, name := range v.UsedBy {
		used[name] = true
	}
	if len(used) == 0 {
		return
	}
	for _, id := range records.SortedKeys(m.insts) {
		i := m.insts[id]
		c := m.clusters[i.Cluster]
		if !used[i.App+"."+i.Service] || c == nil || c.seen[id] == nil || c.seen[id].State != wire.Running {
			continue
		}
		for _, h := range c.seen[id].Secrets {
			if h.Name != v.Name {
				continue
			}
			v.Holders++
			switch {
			case h.Version == version && h.Next == "":
				v.Current++
			case h.Next != "" && len(v.Restart) < maxRestart:
				v.Restart = append(v.Restart, id)
			}
		}
	}
}

// missingSecrets warns of secrets that an application names and that are not
// there yet. The mutex is held.
func (m *model) missingSecrets(app *wire.Application) (warnings []string) {
	ns := wire.NamespaceOf(app.Spec)
	for _, svc := range app.Spec.ServiceNames() {
		for _, name := range app.Spec.Services[svc].Secrets() {
			if m.vault.secrets[wire.SecretID(ns, name)] == nil {
				warnings = append(warnings, fmt.Sprintf("services.%s: %s; its instances wait for it", svc, wire.NoSecret(ns, name)))
			}
		}
		for _, name := range app.Spec.Services[svc].IngressSecrets() {
			if m.vault.secrets[wire.SecretID(ns, name)] == nil {
				warnings = append(warnings, fmt.Sprintf("services.%s: secret %s of namespace %s is not there, and gateways have no certificate: verge secret set %s --namespace %s --cert FILE --key FILE", svc, name, ns, name, ns))
			}
		}
	}
	return warnings
}
