package secrets

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// What can be opened is opened; the error names the first secret that cannot, and why.
func TestSecretsAreOpened(t *testing.T) {
	dir := t.TempDir()
	k, err := seal.Ensure(dir)
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(name, version, value string) wire.SealedSecret {
		s := wire.SealedSecret{V: wire.Version, Namespace: "shop", Name: name, Version: version, Key: k.ID()}
		if s.Sealed, err = seal.Seal(k.Public(), s.Purpose(), []byte(value)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	v := New(dir)
	old := sealed("old", "1", "gone")
	old.Key = "another"
	list := []wire.SealedSecret{sealed("db", "7", "correct horse"), sealed("nul", "1", "a\x00b"), old}
	if !v.Set(list) || v.Set(list) {
		t.Error("the same secrets again are a change, or new ones are none")
	}
	if got := v.Versions("shop", []string{"db", "missing"}); len(got) != 1 || got["db"] != "7" {
		t.Errorf("versions %v", got)
	}
	o := &wire.Order{Namespace: "shop", Spec: &api.Service{EnvSecrets: map[string]string{"DB": "db", "OLD": "old"}}}
	known, err := v.OpenOrder(o)
	if err == nil || !strings.Contains(err.Error(), "sealed for a key that this worker had before") ||
		string(known["db"]) != "correct horse" {
		t.Errorf("%q, %v", known, err)
	}
	vars := map[string]string{}
	if hidden, err := known.Fill(o, vars); err != nil || vars["DB"] != "correct horse" || len(hidden) != 1 {
		t.Errorf("%v, %q, %v", vars, hidden, err)
	}
	if known, err = v.OpenAll("shop", []string{"nul"}); err != nil {
		t.Fatal(err)
	}
	o.Spec.EnvSecrets = map[string]string{"X": "nul"}
	if _, err := known.Fill(o, vars); err == nil || !strings.Contains(err.Error(), "NUL byte") {
		t.Errorf("a NUL byte in a variable: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, seal.File)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.OpenAll("shop", []string{"db"}); !errors.Is(err, ErrNoKey) {
		t.Errorf("without the key: %v", err)
	}
}
