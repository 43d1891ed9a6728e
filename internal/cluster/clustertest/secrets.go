package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// Password is the value of a secret.
const Password = "correct horse battery"

// SecretsCore is a cluster with a key, and two workers which have theirs.
type SecretsCore struct {
	*core.Core
	T    *testing.T
	Keys map[string]*seal.Key
	Rev  uint64
}

// NewSealKey is a new key of a node.
func NewSealKey(t *testing.T) *seal.Key {
	t.Helper()
	k, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// NewSecretsCore is a cluster with a key and workers with theirs, by name.
func NewSecretsCore(t *testing.T, store *bustest.MemStore, key *seal.Key, keys map[string]*seal.Key) *SecretsCore {
	t.Helper()
	v := &SecretsCore{Core: NewCore(t, store), T: t, Keys: keys}
	v.Key, secrets.VaultOf(v.M).Key = key, key
	for name := range keys {
		if v.M.Workers[name] == nil {
			v.M.Workers[name] = state.NewWorker(state.WorkerRecord{V: wire.Version,
				Info: wire.WorkerInfo{Name: name}}, time.Now())
		}
		v.ReportKey(name)
	}
	return v
}

// ReportKey lets a worker say what it is.
func (v *SecretsCore) ReportKey(name string) {
	v.T.Helper()
	v.M.Workers[name].Told = time.Time{}
	v.Rev++
	SendReport(v.T, v.Core, name, wire.Rev{}, v.Rev, wire.WorkerInfo{
		V: wire.Version, Runtimes: []string{"process"}, SealKey: v.Keys[name].Public(),
		Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
	})
	Pass(v.T, v.Core)
}

// Take takes over what the root wants.
func (v *SecretsCore) Take(full bool, changes ...wire.Change) {
	v.T.Helper()
	v.Rev++
	if err := uplink.FromRoot(v.Core).Take(v.T.Context(), full, changes, wire.Rev{Inc: "root", N: v.Rev},
		nil); err != nil {
		v.T.Fatal(err)
	}
	Pass(v.T, v.Core)
}

// WantingShare is a share of n instances that need two secrets.
func WantingShare(t *testing.T, n int) wire.Change {
	t.Helper()
	ch := ShareChange(t, n)
	var s wire.Share
	if err := json.Unmarshal(ch.Value, &s); err != nil {
		t.Fatal(err)
	}
	s.Namespace = "team"
	s.Spec.EnvSecrets = map[string]string{"DB_PASSWORD": "db-password"}
	s.Spec.Files = map[string]api.File{"key": {Secret: "tls-key"}}
	ch.Value = JSON(t, s)
	return ch
}

// Secret is one as the root sends it.
func (v *SecretsCore) Secret(name, version, value string) wire.Change {
	v.T.Helper()
	s := wire.SealedSecret{V: wire.Version, Namespace: "team", Name: name, Version: version, Key: v.Key.ID()}
	var err error
	if s.Sealed, err = seal.Seal(v.Key.Public(), s.Purpose(), []byte(value)); err != nil {
		v.T.Fatal(err)
	}
	return wire.Change{Key: "secret." + s.ID(), Value: JSON(v.T, s)}
}

// ValuesOf are the values that a worker can open of what it is given; "?" for those
// that it cannot.
func (v *SecretsCore) ValuesOf(worker string) string {
	v.T.Helper()
	f, err := workers.DesiredOf(v.Core, worker).Fetch(v.T.Context(), wire.Fetch{V: wire.Version})
	if err != nil || f.More {
		v.T.Fatalf("%+v, %v", f, err)
	}
	var out []string
	for _, ch := range f.Changes {
		id, ok := strings.CutPrefix(ch.Key, "secret.")
		if !ok {
			continue
		}
		var s wire.SealedSecret
		if err := json.Unmarshal(ch.Value, &s); err != nil {
			v.T.Fatal(err)
		}
		text := "?"
		if value, err := v.Keys[worker].Open(s.Purpose(), s.Sealed); err == nil && s.ID() == id &&
			s.Key == v.Keys[worker].ID() {
			text = string(value)
		}
		out = append(out, id+"="+text)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Settled says that no pass changes anything any more, and that no value can be
// read in the store.
func (v *SecretsCore) Settled(values ...string) {
	v.T.Helper()
	before := v.RecordStore.Rev()
	for range 3 {
		Pass(v.T, v.Core)
	}
	if now := v.RecordStore.Rev(); now != before {
		v.T.Errorf("passes go on and on: revision %d became %d", before, now)
	}
	entries, err := v.RecordStore.List(v.T.Context(), "")
	if err != nil {
		v.T.Fatal(err)
	}
	text := fmt.Sprintf("%+v %+v", secrets.FromRoot.Rows(v.M.DB), secrets.Sealed.Rows(v.M.DB))
	for _, value := range values {
		for _, e := range entries {
			if bytes.Contains(e.Value, []byte(value)) {
				v.T.Errorf("%s has a secret in it", e.Key)
			}
		}
		if strings.Contains(text, value) {
			v.T.Error("the model has a secret in it")
		}
	}
}
