package engine

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// keyOf is the seal key of the rig's worker.
func (r *rig) keyOf() *seal.Key {
	r.t.Helper()
	k, err := seal.Ensure(filepath.Join(r.dir, engineapi.IdentityDir))
	if err != nil {
		r.t.Fatal(err)
	}
	return k
}

// sealed is a secret of namespace shop-team for a key.
func sealed(t *testing.T, k *seal.Key, name, version, value string) wire.SealedSecret {
	t.Helper()
	s := wire.SealedSecret{V: wire.Version, Namespace: "shop-team", Name: name, Version: version, Key: k.ID()}
	var err error
	if s.Sealed, err = seal.Seal(k.Public(), s.Purpose(), []byte(value)); err != nil {
		t.Fatal(err)
	}
	return s
}

// give applies orders with secrets.
func (r *rig) give(list []wire.SealedSecret, orders ...wire.Order) {
	r.t.Helper()
	if err := r.e.Apply(context.Background(),
		engineapi.EngineOrders{V: wire.Version, Orders: orders, Secrets: list}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// secretive is an order that needs two secrets.
func secretive() wire.Order {
	o := order(0, 1, 100)
	o.Namespace = "shop-team"
	o.Spec.EnvSecrets = map[string]string{"DB_PASSWORD": "db-password"}
	o.Spec.Files = map[string]api.File{"tls/key.pem": {Secret: "tls-key", Mode: 0o400}}
	return o
}

const (
	password = "correct horse battery"
	tlsKey   = "staple\n\x00binary"
)

func TestSecretsOfAnInstance(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		k := r.keyOf()
		db, tls := sealed(t, k, "db-password", "1", password), sealed(t, k, "tls-key", "1", tlsKey)
		has := func(want string) {
			t.Helper()
			if env := r.driver.last().Env; !slices.Contains(env, "DB_PASSWORD="+want) {
				t.Errorf("the environment lacks it: %d variables", len(env))
			}
			path := filepath.Join(r.dir, state.InstancesDir, web0, "work", "tls", "key.pem")
			if b, err := os.ReadFile(path); err != nil || string(b) != tlsKey {
				t.Errorf("file: %d bytes, %v", len(b), err)
			}
			if st, err := os.Stat(path); err != nil || st.Mode() != 0o400 {
				t.Errorf("file: %v, %v", st.Mode(), err)
			}
		}
		// One after the other.
		r.give(nil, secretive())
		const noPassword = "secret db-password of namespace shop-team is not there: verge secret set db-password " +
			"--namespace shop-team --from-file FILE"
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Why != noPassword || s.Restarts != 0 {
			t.Errorf("without any: %+v", s)
		}
		r.give([]wire.SealedSecret{db}, secretive())
		if s := r.status(web0); s.Phase != wire.PhasePending ||
			!strings.HasPrefix(s.Why, "secret tls-key of namespace shop-team is not there") {
			t.Errorf("with one: %+v", s)
		}
		other := sealed(t, k, "tls-key", "1", "of another namespace")
		other.Namespace = "others"
		r.give([]wire.SealedSecret{db, other}, secretive())
		after(time.Hour)
		if s := r.status(web0); s.Phase != wire.PhasePending || r.driver.starts(web0) != 0 {
			t.Errorf("with one of another namespace: %+v", s)
		}
		r.give([]wire.SealedSecret{db, tls}, secretive())
		if s := r.status(web0); s.Phase != wire.PhaseRunning || s.Restarts != 0 {
			t.Fatalf("with both: %+v", s)
		}
		has(password)
		// Another value counts from the next start on, and restarts nothing.
		r.give([]wire.SealedSecret{sealed(t, k, "db-password", "2", "another"), tls}, secretive())
		after(time.Minute)
		if r.driver.starts(web0) != 1 {
			t.Error("a secret that changed restarted it")
		}
		r.one(web0).end(1)
		after(time.Second)
		has("another")
		// After a power cut it starts without anybody.
		r.stop()
		r.one(web0).end(137)
		r.boot, r.driver.boot = "boot-2", "boot-2"
		r.start()
		after(time.Second)
		if s := r.status(web0); s.Phase != wire.PhaseRunning || r.driver.starts(web0) != 3 {
			t.Errorf("after a power cut: %+v", s)
		}
		has("another")
		// What runs goes on without them, and waits when it is to start again.
		r.give(nil, secretive())
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("after they were removed: %+v", s)
		}
		r.one(web0).end(1)
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhasePending || s.Why != noPassword {
			t.Errorf("after they were removed and it ended: %+v", s)
		}
		r.give([]wire.SealedSecret{db, tls}, secretive())
		has(password)
		// No file has them but the one that was asked for.
		err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.Contains(path, "/mounts/") ||
				filepath.Base(path) == "key.pem" {
				return err
			}
			b, err := os.ReadFile(path)
			for _, value := range []string{password, tlsKey, "another"} {
				if bytes.Contains(b, []byte(value)) {
					t.Errorf("%s has a secret in it", path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		// It is stopped and forgotten while it waits, too.
		r.give(nil, secretive())
		r.one(web0).end(1)
		after(time.Minute)
		r.give(nil)
		after(time.Minute)
		if s := r.status(web0); s.ID != "" {
			t.Errorf("it was to be forgotten: %+v", s)
		}
	})
}

func TestSecretsThatCannotBeOpened(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := secretive()
		o.Spec.Files = nil
		r.give(nil, o)
		if s := r.status(web0); !strings.HasPrefix(s.Why, "this worker cannot open secrets: ") {
			t.Errorf("without a key: %+v", s)
		}
		k := r.keyOf()
		former, err := seal.Ensure(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r.give([]wire.SealedSecret{sealed(t, former, "db-password", "1", password)}, o)
		if s := r.status(web0); !strings.Contains(s.Why, "for a key that this worker had before") {
			t.Errorf("for another key: %+v", s)
		}
		moved := sealed(t, k, "db-password", "1", password)
		moved.Version = "2"
		r.give([]wire.SealedSecret{moved}, o)
		if s := r.status(web0); !strings.Contains(s.Why, "secret db-password of namespace shop-team cannot be opened") {
			t.Errorf("for another purpose: %+v", s)
		}
		r.give([]wire.SealedSecret{sealed(t, k, "db-password", "3", "a\x00b")}, o)
		if s := r.status(web0); !strings.Contains(s.Why, "not started: secret db-password has a NUL byte in it") {
			t.Errorf("with a NUL byte: %+v", s)
		}
		r.give([]wire.SealedSecret{sealed(t, k, "db-password", "4", password)}, o)
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// A key that cannot be read for some time is tried again: nothing else would start what needs
// it, as no secret has changed.
func TestTheKeyOfSecretsIsReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := secretive()
		o.Spec.Files = nil
		secret := sealed(t, r.keyOf(), "db-password", "1", password)
		key := filepath.Join(r.dir, engineapi.IdentityDir, seal.File)
		if err := os.Rename(key, key+".away"); err != nil {
			t.Fatal(err)
		}
		r.give([]wire.SealedSecret{secret}, o)
		if s := r.status(web0); s.Phase != wire.PhasePending ||
			!strings.HasPrefix(s.Why, "this worker cannot open secrets: ") {
			t.Errorf("without its key: %+v", s)
		}
		if err := os.Rename(key+".away", key); err != nil {
			t.Fatal(err)
		}
		after(time.Minute)
		if s := r.status(web0); s.Phase != wire.PhaseRunning {
			t.Errorf("with its key: %+v", s)
		}
	})
}

func TestChecksDoNotTellSecrets(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		o := secretive()
		o.Spec.Files = nil
		o.Spec.Readiness = &api.Check{Exec: &api.ExecCheck{Command: []string{"look"}}, Interval: 1e9, Failures: 1}
		r.give([]wire.SealedSecret{sealed(t, r.keyOf(), "db-password", "1", password)}, o)
		after(5 * time.Second)
		task := r.one(web0)
		task.mu.Lock()
		env := task.execs[len(task.execs)-1].Env
		task.beside = func(e runtime.Exec) (wire.Exit, error) {
			_, err := e.Stdout.WriteString("can't log in with " + password + "\n")
			return wire.Exit{Code: 1}, err
		}
		task.mu.Unlock()
		if !slices.Contains(env, "DB_PASSWORD="+password) {
			t.Error("the command has another environment than the instance")
		}
		after(5 * time.Second)
		if s := r.status(web0); !strings.HasPrefix(s.Why,
			`readiness command look: exit code 1 "can't log in with [secret]" (`) {
			t.Errorf("%+v", s)
		}
		// Found again, with the secret gone: the command goes without it.
		r.give(nil, o)
		r.stop()
		r.start()
		task.mu.Lock()
		task.execs, task.beside = nil, nil
		task.mu.Unlock()
		after(time.Minute)
		if s := r.status(web0); !s.Ready || len(task.execs) == 0 {
			t.Errorf("%+v", s)
		}
	})
}
