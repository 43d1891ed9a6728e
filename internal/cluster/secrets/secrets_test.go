package secrets

import (
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker is given what its orders name, sealed for it alone; a change is sealed again, and
// what nothing needs is taken back.
func TestGive(t *testing.T) {
	own, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	worker, err := seal.Ensure(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m, store, v := state.NewModel("edge", true, time.Now()), bustest.NewMemStore(), Vault{Key: own}
	commit := func(tx *state.Tx) {
		t.Helper()
		groups, err := tx.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := records.Commit(t.Context(), store, groups); err != nil {
			t.Fatal(err)
		}
		tx.Done()
	}
	give := func(version, value string) {
		t.Helper()
		s := &wire.SealedSecret{V: wire.Version, Namespace: "default", Name: "password", Version: version,
			Key: own.ID()}
		if s.Sealed, err = seal.Seal(own.Public(), s.Purpose(), []byte(value)); err != nil {
			t.Fatal(err)
		}
		tx := m.Begin()
		FromRoot.Put(tx.Rows, "default.password", s)
		commit(tx)
	}
	pass := func(want string) {
		t.Helper()
		tx := m.Begin()
		v.Give(tx)
		v.Seal(t.Context(), tx, store, slog.New(slog.DiscardHandler))
		if nudged := tx.Nudge["w1"]; nudged != (tx.Rows.Len() > 0) {
			t.Errorf("the worker is nudged: %v", nudged)
		}
		commit(tx)
		e, err := store.Get(t.Context(), KeySealed+"w1.default.password")
		if want == "" {
			if err == nil {
				t.Errorf("it still has %s", e.Value)
			}
			return
		}
		var s wire.SealedSecret
		if err == nil {
			err = records.Load(e, &s)
		}
		if err != nil {
			t.Fatal(err)
		}
		if value, err := worker.Open(s.Purpose(), s.Sealed); err != nil || string(value) != want {
			t.Errorf("%q, %v, want %q", value, err, want)
		}
	}

	tx := m.Begin()
	state.WorkerTable.Put(tx.Rows, "w1", &state.WorkerRecord{V: wire.Version,
		Info: wire.WorkerInfo{Name: "w1", SealKey: worker.Public()}})
	tx.Order("w1", "shop.web.0", &wire.Order{V: wire.Version, ID: "shop.web.0", App: "shop", Service: "web",
		Spec: &api.Service{
			EnvSecrets: map[string]string{"PASSWORD": "password"},
		}})
	commit(tx)
	pass("") // it is not known yet
	give("1", "hunter2")
	pass("hunter2")
	if s := Sealed.Rows(m.DB)["w1.default.password"]; s == nil || s.Sealed != nil ||
		FromRoot.Rows(m.DB)["default.password"].Sealed != nil {
		t.Errorf("a value is in memory: %+v", s)
	}
	give("2", "correct horse")
	pass("correct horse")
	rev := store.Rev()
	if pass("correct horse"); store.Rev() != rev {
		t.Error("what is sealed is sealed again")
	}
	tx = m.Begin()
	tx.Order("w1", "shop.web.0", nil)
	commit(tx)
	pass("")
}
