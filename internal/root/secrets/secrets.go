package secrets

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// SealedTable is the secrets as clusters are given them, by cluster, namespace and name.
var SealedTable = table.Add(&state.Schema, records.Kind{
	Prefix: KeySealed, Fate: records.Again, Drop: "it is made anew",
}, table.Rules[wire.SealedSecret]{Keep: bare})

// Table is the secrets, by namespace and name; in memory without their values.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Aside, Drop: "the secret is not known any more, and is taken from who has it: set " +
		"it again (verge secret set) at once after the start",
}, table.Rules[record.Secret]{Keep: bareSecret})

// bare is what is kept in memory of a sealed value, and bareSecret of a secret.
func bare(s *wire.SealedSecret) *wire.SealedSecret {
	kept := *s
	kept.Sealed = nil
	return &kept
}

func bareSecret(s *record.Secret) *record.Secret {
	kept := *s
	kept.Sealed = nil
	return &kept
}

// Keys of secrets in the root's store.
const (
	Key       = "secret." // + namespace.name: record.Secret, sealed for the root
	KeySealed = "seal."   // + cluster.namespace.name: wire.SealedSecret, for the cluster
)

// readable says whether the root can open a secret of its own.
func readable(m *state.Model, s *record.Secret) bool { return s != nil && s.Key == Memory(m).Key }

// Decide decides which secrets each cluster is given: those that a service needs
// of which it has a share. One is sealed anew only where its value or the key of
// the cluster is another; nobody could compare what is sealed. The tx has them
// without their values, see edits.Close.
func Decide(t *state.Tx) {
	want := map[string]bool{}
	for key, s := range records.Merged(t.Model.Shares, t.Shares) {
		if s.Spec == nil {
			continue
		}
		cluster, _, _ := strings.Cut(key, ".")
		for _, name := range s.Spec.Secrets() {
			id := wire.SecretID(wire.ShareNamespace(s), name)
			want[cluster+"."+id] = true
			give(t, cluster, id)
		}
	}
	// Gateways publish what runs anywhere, and only their clusters are given what that
	// needs. What a cluster has stays until it has been heard of.
	certs := certificates(t)
	for _, cluster := range records.SortedKeys(t.Model.Clusters) {
		c := t.Model.Clusters[cluster]
		for _, id := range certs {
			key := cluster + "." + id
			switch {
			case c.Aggregate == nil && SealedTable.Rows(t.Model.DB)[key] != nil:
				want[key] = true
			case c.Aggregate != nil && c.Aggregate.Gateways > 0:
				want[key] = true
				give(t, cluster, id)
			}
		}
	}
	for key := range SealedTable.Rows(t.Model.DB) {
		if !want[key] {
			sealFor(t, key, nil)
		}
	}
}

// certificates are the secrets with those of all hosts that are published.
func certificates(t *state.Tx) (ids []string) {
	for _, name := range records.SortedKeys(t.Model.Apps) {
		app := t.Model.Apps[name]
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
func give(t *state.Tx, cluster, id string) {
	key := cluster + "." + id
	secret, old := Table.Rows(t.Model.DB)[id], SealedTable.Rows(t.Model.DB)[key]
	if !readable(t.Model, secret) {
		if secret == nil && old != nil && !records.Among(t.Model.Unread, Key+id) {
			sealFor(t, key, nil)
		}
		return // what cannot be read here may still be read there
	}
	c := t.Model.Clusters[cluster]
	if c == nil || c.Aggregate == nil {
		return // its key is not known yet; what it has stays
	}
	to, err := seal.ID(c.Aggregate.SealKey)
	if err != nil || old.Fits(secret.Version, to) {
		return
	}
	sealFor(t, key, &wire.SealedSecret{V: wire.Version, Namespace: secret.Namespace, Name: secret.Name,
		Version: secret.Version, Key: to})
}

func sealFor(t *state.Tx, key string, s *wire.SealedSecret) {
	SealedTable.Changes(t.Rows)[key] = s
	cluster, _, _ := strings.Cut(key, ".")
	t.Nudge[cluster] = true
}

// Expires is when the certificate of a host in a value does, zero where there is none:
// the first one in PEM.
func Expires(value []byte) time.Time {
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

// Names are the names of the secrets of a namespace.
func Names(m *state.Model, namespace string) (names []string) {
	for _, s := range Table.Rows(m.DB) {
		if s.Namespace == namespace {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// View is what people are shown of a secret.
func View(m *state.Model, s *record.Secret) apiv1.SecretView {
	v := apiv1.SecretView{Namespace: s.Namespace, Name: s.Name, Created: s.Created, Updated: s.Updated, By: s.By,
		Expires: s.Expires}
	if !readable(m, s) {
		v.Problem = "it was sealed with another key than the root has now: set it again"
	}
	for _, name := range records.SortedKeys(m.Apps) {
		app := m.Apps[name]
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
	holders(m, &v, s.Version)
	return v
}

// maxRestart bounds how many instances are named that need a restart.
const maxRestart = 100

// holders counts the instances that have a secret, and those that have its newest
// value.
func holders(m *state.Model, v *apiv1.SecretView, version string) {
	used := map[string]bool{}
	for _, name := range v.UsedBy {
		used[name] = true
	}
	if len(used) == 0 {
		return
	}
	for _, id := range records.SortedKeys(m.Insts) {
		i := m.Insts[id]
		c := m.Clusters[i.Cluster]
		if !used[i.App+"."+i.Service] || c == nil || c.Seen[id] == nil || c.Seen[id].State != wire.Running {
			continue
		}
		for _, h := range c.Seen[id].Secrets {
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

// Missing warns of secrets that an application names and that are not
// there yet.
func Missing(m *state.Model, app *record.Application) (warnings []string) {
	ns := wire.NamespaceOf(app.Spec)
	for _, svc := range app.Spec.ServiceNames() {
		for _, name := range app.Spec.Services[svc].Secrets() {
			if Table.Rows(m.DB)[wire.SecretID(ns, name)] == nil {
				warnings = append(warnings,
					fmt.Sprintf("services.%s: %s; its instances wait for it", svc, wire.NoSecret(ns, name)))
			}
		}
		for _, name := range app.Spec.Services[svc].IngressSecrets() {
			if Table.Rows(m.DB)[wire.SecretID(ns, name)] == nil {
				warnings = append(warnings,
					fmt.Sprintf("services.%s: secret %s of namespace %s is not there, and gateways have no "+
						"certificate: verge secret set %s --namespace %s --cert FILE --key FILE", svc, name, ns, name,
						ns))
			}
		}
	}
	return warnings
}

// Known is what this process knows beside what is stored.
type Known struct {
	Key string // the id of the root's own key
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	Clone: func(k *Known) *Known {
		c := *k
		return &c
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
