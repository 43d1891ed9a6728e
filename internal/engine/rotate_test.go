package engine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

func heldOf(s wire.InstanceStatus, name string) wire.SecretHeld {
	for _, h := range s.Secrets {
		if h.Name == name {
			return h
		}
	}
	return wire.SecretHeld{}
}

// A new value is in the files of what runs at once, and not in its variables; which it
// has, its status says, also after an engine that was away has come back.
func TestSecretFilesRotate(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		k := r.keyOf()
		o := secretive()
		o.Spec.EnvSecrets["BOTH"] = "tls-key-too"
		o.Spec.Files["both"] = api.File{Secret: "tls-key-too"}
		give := func(db, tls, both string) {
			t.Helper()
			r.give([]wire.SealedSecret{sealed(t, k, "db-password", db, "db "+db),
				sealed(t, k, "tls-key", tls, "tls "+tls), sealed(t, k, "tls-key-too", both, "both "+both)}, o)
		}
		has := func(name, version, next string) {
			t.Helper()
			if h := heldOf(r.status(web0), name); h.Version != version || h.Next != next || h.Why != "" ||
				h.At.IsZero() {
				t.Errorf("%+v; want %s and next %q", h, version, next)
			}
		}
		work := filepath.Join(r.dir, state.InstancesDir, web0, "work")
		is := func(name, want string) {
			t.Helper()
			if b, err := os.ReadFile(filepath.Join(work, name)); err != nil || string(b) != want {
				t.Errorf("%s is %q, %v; want %q", name, b, err, want)
			}
		}
		give("1", "1", "1")
		has("db-password", "1", "")
		has("tls-key", "1", "")
		started := heldOf(r.status(web0), "tls-key").At
		after(time.Minute)
		give("1", "2", "1")
		is("tls/key.pem", "tls 2")
		has("tls-key", "2", "")
		if at := heldOf(r.status(web0), "tls-key").At; at.Sub(started) < time.Minute {
			t.Errorf("it came at %s, started at %s", at, started)
		}
		give("2", "2", "2")
		is("both", "both 2")
		has("tls-key-too", "2", "2")
		has("db-password", "1", "2")
		// An engine that comes back to other orders.
		r.stop()
		r.start()
		after(time.Second)
		has("db-password", "1", "2")
		give("2", "3", "2")
		is("tls/key.pem", "tls 3")
		has("tls-key", "3", "")
		if n := r.driver.starts(web0); n != 1 {
			t.Fatalf("it was started %d times", n)
		}
		// Where it cannot be put is said, and tried again.
		keep := filepath.Join(work, "tls")
		if err := os.RemoveAll(keep); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(r.dir, keep); err != nil {
			t.Fatal(err)
		}
		give("2", "4", "2")
		if h := heldOf(r.status(web0), "tls-key"); h.Version != "3" || h.Next != "4" ||
			!strings.Contains(h.Why, "link that leads out") {
			t.Errorf("%+v", h)
		}
		if err := os.Remove(keep); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		is("tls/key.pem", "tls 4")
		has("tls-key", "4", "")
		// What is removed stays; what is started again has all.
		r.give(nil, o)
		has("tls-key", "4", "")
		give("5", "5", "5")
		r.one(web0).end(1)
		after(time.Second)
		for _, name := range []string{"db-password", "tls-key", "tls-key-too"} {
			has(name, "5", "")
		}
		is("tls/key.pem", "tls 5")
	})
}
