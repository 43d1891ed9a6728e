package secrets

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of secrets in a cluster's store.
const (
	Key       = "secret." // + namespace.name: wire.SealedSecret, for this cluster, from the root
	KeySealed = "seal."   // + worker.namespace.name: wire.SealedSecret, for the worker
)

// Tables of secrets, whose records have no values in memory.
var (
	FromRoot = table.Add(&state.Schema, records.Kind{
		Prefix: Key, Fate: records.Aside, With: state.FromRoot, Drop: "the secret is fetched from the root again",
	}, table.Rules[wire.SealedSecret]{Keep: bare})
	Sealed = table.Add(&state.Schema, records.Kind{
		Prefix: KeySealed, Fate: records.Again, Drop: "it is made anew",
	}, table.Rules[wire.SealedSecret]{Stage: table.First, Keep: bare}) // before the orders that need them
)

// bare is a secret without its value.
func bare(s *wire.SealedSecret) *wire.SealedSecret {
	b := *s
	b.Sealed = nil
	return &b
}

// Vault opens what is sealed for the cluster.
type Vault struct {
	// Key is the cluster's own; nil where it has none: then nobody is given anything.
	Key *seal.Key
}

// Public is the public part of the key, "" where there is none.
func (v Vault) Public() string {
	if v.Key == nil {
		return ""
	}
	return v.Key.Public()
}

// Gateways counts the workers that are given certificates.
func Gateways(m *state.Model) (n int) {
	for _, w := range m.Workers {
		if w.IsGateway() {
			n++
		}
	}
	return n
}

// Give decides which secrets each worker is given. Nobody could compare what is sealed, so the
// transaction has the records without their values until Seal.
func (v Vault) Give(t *state.Tx) {
	want := map[string]bool{}
	give := func(worker, id string) {
		want[worker+"."+id] = true
		v.give(t, worker, id)
	}
	for key, o := range records.Merged(t.Model.Orders, t.Orders) {
		if o.Stop || o.Spec == nil || len(o.Spec.EnvSecrets)+len(o.Spec.Files) == 0 && o.Spec.PullSecret == "" {
			continue
		}
		worker := key[:len(key)-len(o.ID)-1]
		for _, name := range o.Spec.Secrets() {
			give(worker, wire.SecretID(wire.OrderNamespace(o), name))
		}
	}
	var certificates []string
	for _, worker := range t.Model.WorkerNames() {
		if !t.Model.Workers[worker].IsGateway() {
			continue
		}
		if certificates == nil {
			certificates = published(t)
		}
		for _, id := range certificates {
			give(worker, id)
		}
	}
	for key := range Sealed.Rows(t.Model.DB) {
		if !want[key] {
			put(t, key, nil)
		}
	}
}

// published are the secrets with the certificates of all hosts that are published.
func published(t *state.Tx) []string {
	ids := map[string]bool{}
	for _, r := range records.Merged(t.Model.Names, t.Names) {
		for _, name := range api.IngressSecrets(r.Ports) {
			ids[wire.SecretID(cmp.Or(r.Namespace, api.DefaultNamespace), name)] = true
		}
	}
	return slices.AppendSeq([]string{}, maps.Keys(ids))
}

// give lets a worker have a secret as it is now.
func (v Vault) give(t *state.Tx, worker, id string) {
	key := worker + "." + id
	secret, old := FromRoot.Get(t.Rows, id), Sealed.Rows(t.Model.DB)[key]
	if secret == nil {
		if old != nil && !records.Among(t.Model.Unread, Key+id) {
			put(t, key, nil)
		}
		return
	}
	w := t.Model.Workers[worker]
	if w == nil || v.Key == nil || secret.Key != v.Key.ID() {
		return // what cannot be read here may still be read there
	}
	to, err := seal.ID(w.Info.SealKey)
	if err != nil || old.Fits(secret.Version, to) {
		return
	}
	put(t, key, &wire.SealedSecret{V: wire.Version, Namespace: secret.Namespace, Name: secret.Name,
		Version: secret.Version, Key: to})
}

func put(t *state.Tx, key string, s *wire.SealedSecret) {
	Sealed.Changes(t.Rows)[key] = s
	worker, _, _ := strings.Cut(key, ".")
	t.Nudge[worker] = true
}

// Seal puts the values into what a transaction gives. A value that cannot be sealed is left out,
// and tried again with the next pass.
func (v Vault) Seal(ctx context.Context, t *state.Tx, store bus.Store, log *slog.Logger) {
	given := Sealed.Changes(t.Rows)
	for _, key := range records.SortedKeys(given) {
		s := given[key]
		if s == nil {
			continue
		}
		worker, id, _ := strings.Cut(key, ".")
		value, err := v.open(ctx, store, id, s.Version)
		if err == nil {
			s.Sealed, err = seal.Seal(t.Model.Workers[worker].Info.SealKey, s.Purpose(), value)
		}
		if err != nil {
			delete(given, key)
			log.Error("a secret cannot be sealed", "secret", id, "worker", worker, "error", err)
		}
	}
}

// open returns the value of a secret that the root has given.
func (v Vault) open(ctx context.Context, store bus.Store, id, version string) ([]byte, error) {
	e, err := store.Get(ctx, Key+id)
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
	return v.Key.Open(rec.Purpose(), rec.Sealed)
}

// Check refuses a secret that is not the one that its id names.
func Check(s *wire.SealedSecret, id string) error {
	if s.ID() != id {
		return fmt.Errorf("it is about %.100q", s.ID())
	}
	return nil
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Vault]{
	Clone: func(v *Vault) *Vault { c := *v; return &c },
})

// VaultOf is that of the cluster of m.
func VaultOf(m *state.Model) *Vault { return memory.Of(m.DB) }
