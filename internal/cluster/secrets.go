package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of secrets in a cluster's store.
const (
	keySecret = "secret." // + namespace.name: wire.SealedSecret, for this cluster, from the root
	keySealed = "seal."   // + worker.namespace.name: wire.SealedSecret, for the worker
)

// vault is the part of a model that is about secrets. Values are not in it.
type vault struct {
	given  map[string]*wire.SealedSecret // by namespace.name
	sealed map[string]*wire.SealedSecret // by worker.namespace.name
	// key is the cluster's own; nil where it has none, as in some tests.
	key *seal.Key
}

// public is the public part of the key of the cluster.
func (v *vault) public() string {
	if v.key == nil {
		return ""
	}
	return v.key.Public()
}

// bare is a secret without its value.
func bare(s *wire.SealedSecret) *wire.SealedSecret {
	if s == nil {
		return nil
	}
	b := *s
	b.Sealed = nil
	return &b
}

// secrets decides which secrets each worker is given: those that an order of it
// needs. One is sealed anew only where its value or the key of the worker is
// another; nobody could compare what is sealed. The tx has them without their
// values, see core.close.
func (t *tx) secrets() {
	want := map[string]bool{}
	for key, o := range records.Merged(t.m.Orders, t.Orders) {
		if o.Stop || o.Spec == nil || len(o.Spec.EnvSecrets)+len(o.Spec.Files) == 0 && o.Spec.PullSecret == "" {
			continue
		}
		worker := key[:len(key)-len(o.ID)-1]
		for _, name := range o.Spec.Secrets() {
			id := wire.SecretID(wire.OrderNamespace(o), name)
			want[worker+"."+id] = true
			t.give(worker, id)
		}
	}
	for _, worker := range t.m.WorkerNames() {
		if !t.m.Workers[worker].IsGateway() {
			continue
		}
		for id := range t.certificates() {
			want[worker+"."+id] = true
			t.give(worker, id)
		}
	}
	for key := range t.m.vault.sealed {
		if !want[key] {
			t.sealFor(key, nil)
		}
	}
}

// certificates are the secrets with those of all hosts that are published, which
// gateways that may be some are given and no other worker.
func (t *tx) certificates() map[string]bool {
	if t.certs == nil {
		t.certs = map[string]bool{}
		for _, r := range records.Merged(t.m.Names, t.Names) {
			for _, name := range api.IngressSecrets(r.Ports) {
				t.certs[wire.SecretID(cmp.Or(r.Namespace, api.DefaultNamespace), name)] = true
			}
		}
	}
	return t.certs
}

// gateways counts the workers that are given certificates.
func (m *model) gateways() (n int) {
	for _, w := range m.Workers {
		if w.IsGateway() {
			n++
		}
	}
	return n
}

// give lets a worker have a secret as it is now.
func (t *tx) give(worker, id string) {
	key := worker + "." + id
	secret, old := t.m.vault.given[id], t.m.vault.sealed[key]
	if secret == nil {
		if old != nil && !records.Among(t.m.Unread, keySecret+id) {
			t.sealFor(key, nil)
		}
		return
	}
	w := t.m.Workers[worker]
	if w == nil || t.m.vault.key == nil || secret.Key != t.m.vault.key.ID() {
		return // what cannot be read here may still be read there
	}
	to, err := seal.ID(w.Info.SealKey)
	if err != nil || old.Fits(secret.Version, to) {
		return
	}
	t.sealFor(key, &wire.SealedSecret{V: wire.Version, Namespace: secret.Namespace, Name: secret.Name, Version: secret.Version, Key: to})
}

func (t *tx) sealFor(key string, s *wire.SealedSecret) {
	t.seals[key] = s
	worker, _, _ := strings.Cut(key, ".")
	t.Nudge[worker] = true
}

// close puts the values into what a step has decided to give. A value that cannot
// be sealed is left out, and tried again with the next pass. The mutex is held.
func (c *core) seal(ctx context.Context, t *tx) {
	for _, key := range records.SortedKeys(t.seals) {
		s := t.seals[key]
		if s == nil {
			continue
		}
		worker, id, _ := strings.Cut(key, ".")
		value, err := c.open(ctx, id, s.Version)
		if err == nil {
			s.Sealed, err = seal.Seal(c.m.Workers[worker].Info.SealKey, s.Purpose(), value)
		}
		if err != nil {
			delete(t.seals, key)
			c.log.Error("a secret cannot be sealed", "secret", id, "worker", worker, "error", err)
		}
	}
}

// open returns the value of a secret that the root has given.
func (c *core) open(ctx context.Context, id, version string) ([]byte, error) {
	e, err := c.store.Get(ctx, keySecret+id)
	if err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	var rec wire.SealedSecret
	if err := json.Unmarshal(e.Value, &rec); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if rec.Version != version {
		return nil, errors.New("it was changed meanwhile")
	}
	return c.m.vault.key.Open(rec.Purpose(), rec.Sealed)
}

// checkSecret refuses a secret that is not the one that its key names.
func checkSecret(s *wire.SealedSecret, id string) error {
	if s.ID() != id {
		return fmt.Errorf("it is about %q", cut(s.ID(), maxName))
	}
	return nil
}
