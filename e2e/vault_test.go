package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/engineapi"
)

const vaultHost = "vault.test"

// vaultApp has all that a worker puts around an instance: files, volumes, secrets
// and the three checks.
const vaultApp = `application: vault
services:
  main:
    command: [testprogram]
    replicas: 1
    replace_after: 60s
    env: {GREETING: hello}
    env_secrets: {DB_PASSWORD: db-password}
    files:
      conf/app.ini: {content: "port=${PORT} greeting=${GREETING} price=$$5\n", mode: 0640}
      tls/key.pem: {secret: tls-key, mode: 0400}
    volumes:
      - {path: data, name: data}
      - {path: scratch, tmpfs: 4Mi}
    ports:
      - name: http
        ingress: {host: vault.test}
    startup:
      exec: {command: [sh, -c, "test -e conf/app.ini && test -n \"$$DB_PASSWORD\""]}
    readiness:
      http: {path: /healthz}
      interval: 500ms
    liveness:
      exec: {command: [sh, -c, "test ! -e dead || { rm dead; echo \"dead with $$DB_PASSWORD\"; exit 1; }"]}
      interval: 300ms
      failures: 1
`

const (
	firstPassword  = "correct-horse-battery-1"
	secondPassword = "correct-horse-battery-2"
	tlsKey         = "-- staple --\nof a key\n"
)

// TestSecretsFilesVolumesAndChecks takes one application through what its worker
// does for it, and looks everywhere for what must not be there.
func TestSecretsFilesVolumesAndChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "edge")
	w.run("it waits for its secrets", w.waitsForSecrets)
	w.run("it has what was promised", w.hasWhatWasPromised)
	w.run("it is started again when it is dead", w.deadIsRestarted)
	w.run("a secret file is exchanged", w.secretFileIsExchanged)
	w.run("the worker is alone after a power cut", w.startsAloneWithSecrets)
	w.run("no value is anywhere else", w.valuesAreNowhereElse)
	w.run("the worker gets another key", w.workerGetsAnotherKey)
	w.run("a secret is removed", w.secretIsRemoved)
	w.run("nothing is left", w.vaultIsDeleted)
}

const vaultInstance = "vault.main.0"

// set sets a secret by the command line.
func (w *world) set(name, value string) {
	w.t.Helper()
	if r := vergeIn(w.t, w.root.contextFile(), value, "secret", "set", name, "--from-file", "-"); r.code != 0 {
		w.t.Fatalf("exit code %d: %s", r.code, r.err)
	}
}

// vault asks the instance something by the gateway.
func (w *world) vault(path string, args ...string) (string, error) {
	q := url.Values{}
	for i := 0; i+1 < len(args); i += 2 {
		q.Set(args[i], args[i+1])
	}
	return fetch(w.worker["edge-1"].gateway, vaultHost, path+"?"+q.Encode())
}

// says waits until the instance has the password in its environment.
func (w *world) says(password string) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, "the instance has its password", func() error {
		got, err := w.vault("/env", "name", "DB_PASSWORD")
		if err != nil {
			return err
		}
		return differs("password", got, password)
	})
}

// reason waits until the instance says something about itself.
func (w *world) reason(part string) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, "the instance says "+part, func() error {
		r := verge(w.t, w.root.contextFile(), "describe", "instance/"+vaultInstance)
		if !strings.Contains(r.out, part) {
			return errors.New(r.out + r.err)
		}
		return nil
	})
}

func (w *world) waitsForSecrets(t *testing.T) {
	r := vergeIn(t, w.root.contextFile(), vaultApp, "apply", "--no-wait", "-")
	if r.code != 0 || !strings.Contains(r.err, "secret db-password of namespace default is not there: verge secret set db-password") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	w.reason("secret db-password of namespace default is not there: verge secret set db-password --namespace default")
	w.set("db-password", firstPassword)
	w.reason("secret tls-key of namespace default is not there")
	w.set("tls-key", tlsKey)
	w.root.holds("vault", 20*time.Second)
	w.says(firstPassword)
}

func (w *world) hasWhatWasPromised(t *testing.T) {
	wantEqual(t, "the key", must[string](t)(w.vault("/file", "name", "tls/key.pem")), tlsKey)
	ini := must[string](t)(w.vault("/file", "name", "conf/app.ini"))
	if !strings.HasPrefix(ini, "port=") || !strings.HasSuffix(ini, " greeting=hello price=$5\n") || strings.Contains(ini, "${") {
		t.Errorf("conf/app.ini is %q", ini)
	}
	for _, dir := range []string{"data", "scratch"} {
		must[string](t)(w.vault("/write", "name", dir+"/x", "text", "kept"))
	}
	work := filepath.Join(w.worker["edge-1"].dir, "instances", vaultInstance, "work")
	st := must[fs.FileInfo](t)(os.Stat(filepath.Join(work, "conf", "app.ini")))
	wantEqual(t, "mode of conf/app.ini", st.Mode(), fs.FileMode(0o640))
}

func (w *world) deadIsRestarted(t *testing.T) {
	must[string](t)(w.vault("/write", "name", "dead", "text", ""))
	w.reason(`liveness command sh: exit code 1 "dead with [secret]"`)
	w.says(firstPassword)
	w.root.holds("vault", 20*time.Second)
	wantEqual(t, "what is on the named volume", must[string](t)(w.vault("/file", "name", "data/x")), "kept")
	if _, err := w.vault("/file", "name", "scratch/x"); err == nil {
		t.Error("what was in memory outlived its run")
	}
}

// holdsSecret waits until so many of those that have a secret have its newest value.
func (w *world) holdsSecret(name, current string) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, "secret "+name+" has arrived", func() error {
		text := w.root.ok("secret", "ls")
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, name+" ") && strings.Contains(line, " "+current) {
				return nil
			}
		}
		return errors.New(text)
	})
}

// secretFileIsExchanged sets a secret that is a file: the process has it at once, is
// the same, and where it has arrived is told.
func (w *world) secretFileIsExchanged(t *testing.T) {
	pids := w.pids("vault")
	r := vergeIn(t, w.root.contextFile(), "another key", "secret", "set", "tls-key", "--from-file", "-")
	if r.code != 0 || !strings.Contains(r.err, "running instances of vault.main get it in their files without a restart") {
		t.Errorf("%+v", r)
	}
	eventually(t, 20*time.Second, "the file has the new value", func() error {
		got, err := w.vault("/file", "name", "tls/key.pem")
		if err != nil {
			return err
		}
		return differs("key", got, "another key")
	})
	w.holdsSecret("tls-key", "1/1")
	for _, x := range []*tier{w.root, w.cluster["edge"]} {
		if text := x.ok("events"); !strings.Contains(text, "its files have the new value of secret tls-key") {
			t.Errorf("no event says so:\n%s", text)
		}
	}
	wantEqual(t, "processes", fmt.Sprint(w.pids("vault")), fmt.Sprint(pids))
	w.set("tls-key", tlsKey)
	w.holdsSecret("tls-key", "1/1")
}

// version is what the worker's engine calls the value of a secret that it has.
func (x *worker) version(t *testing.T, name string) string {
	t.Helper()
	var have engineapi.EngineOrders
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(x.dir, engineapi.EngineOrdersFile))), &have); err != nil {
		t.Fatal(err)
	}
	for _, s := range have.Secrets {
		if s.Name == name {
			return s.Version
		}
	}
	t.Fatalf("the worker has no secret %s", name)
	return ""
}

// startsAloneWithSecrets changes a secret, which restarts nothing, and then starts
// the worker again without anybody else.
func (w *world) startsAloneWithSecrets(t *testing.T) {
	pids := w.pids("vault")
	x := w.worker["edge-1"]
	before := x.version(t, "db-password") // before it is set: the worker may hear of it at once
	w.set("db-password", secondPassword)
	eventually(t, 10*time.Second, "the worker has heard of it", func() error {
		if x.version(t, "db-password") == before {
			return errors.New("it has the version of before")
		}
		return nil
	})
	w.holdsSecret("db-password", "0/1, others after a restart")
	w.reason("there is a newer one for its next start: verge restart instance/" + vaultInstance)
	wantEqual(t, "processes", fmt.Sprint(w.pids("vault")), fmt.Sprint(pids))
	w.says(firstPassword)

	for _, p := range processesOf(w.dir) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // some end by the death of others
	}
	killAll(t, w.dir)
	x.wait()
	x.start()
	w.says(secondPassword)
	wantEqual(t, "the key", must[string](t)(w.vault("/file", "name", "tls/key.pem")), tlsKey)
	if w.root.running() || w.cluster["edge"].running() {
		t.Fatal("an orchestrator runs: nothing was tested")
	}
	w.cluster["edge"].start()
	w.root.start()
	w.cluster["edge"].answers()
	w.root.answers()
	w.allReady()
	w.root.holds("vault", 20*time.Second)
}

// valuesAreNowhereElse looks at every file, every process and what every command
// says.
func (w *world) valuesAreNowhereElse(t *testing.T) {
	var values []string
	for _, v := range []string{firstPassword, secondPassword, tlsKey} {
		values = append(values, v, strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(v)), "="), url.QueryEscape(v))
	}
	look := func(where string, text string) {
		t.Helper()
		if slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) }) {
			t.Errorf("%s has a secret in it", where)
		}
	}
	for _, at := range []*tier{w.root, w.cluster["edge"]} {
		for _, args := range [][]string{
			{"status"}, {"status", "-o", "json"}, {"events", "-o", "json"}, {"get", "instances", "-o", "json"}, {"get", "applications", "-o", "json"},
			{"describe", "instance/" + vaultInstance}, {"describe", "application/vault"}, {"explain", "instance/" + vaultInstance, "-o", "json"},
			{"logs", vaultInstance}, {"get", "workers", "-o", "json"}, {"secret", "ls", "-o", "json"}, {"secret", "set", "x y", "--from-file", os.DevNull},
		} {
			r := verge(t, at.contextFile(), args...)
			look(at.name+": verge "+strings.Join(args, " "), r.out+r.err)
		}
	}
	if text := w.root.ok("secret", "ls"); !strings.Contains(text, "db-password") || !strings.Contains(text, "vault.main") {
		t.Errorf("secret ls says\n%s", text)
	}
	files, sealed := 0, 0
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // instances come and go
		}
		// What an instance was given as a file is in a file: in memory where the
		// worker may mount.
		if rest, ok := strings.CutPrefix(path, filepath.Join(w.worker["edge-1"].dir, "instances", vaultInstance)); ok && (strings.Contains(rest, "secrets") || filepath.Base(rest) == "key.pem") {
			sealed++
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		files++
		look(path, string(text))
		return nil
	})
	if err != nil || files < 30 || sealed != 1 {
		t.Errorf("%d files and %d secret ones were found, %v: the test does not see what it should", files, sealed, err)
	}
	instances := 0
	for _, p := range processesOf(w.dir) {
		look("the command line of "+p.args[0], strings.Join(p.args, " "))
		if p.env["VERGE_INSTANCE"] != "" {
			instances++
			continue // it has it in its environment, as it was asked for
		}
		if p.env["_VERGE_INSTANCE"] != "" {
			continue // it is about to become an instance's check, with the instance's environment
		}
		look("the environment of "+p.args[0], fmt.Sprint(p.env))
	}
	wantEqual(t, "instances", instances, 1)
	for _, d := range []string{w.root.dir, w.cluster["edge"].dir, filepath.Join(w.worker["edge-1"].dir, engineapi.IdentityDir)} {
		st := must[fs.FileInfo](t)(os.Stat(filepath.Join(d, "seal.key")))
		wantEqual(t, "mode of seal.key", st.Mode(), fs.FileMode(0o600))
	}
}

func (w *world) workerGetsAnotherKey(t *testing.T) {
	x := w.worker["edge-1"]
	x.kill()
	if err := os.Remove(filepath.Join(x.dir, engineapi.IdentityDir, "seal.key")); err != nil {
		t.Fatal(err)
	}
	x.start()
	key := filepath.Join(x.dir, engineapi.IdentityDir, "seal.key")
	eventually(t, 10*time.Second, "the worker has a new key", func() error { _, err := os.Stat(key); return err })
	// It ends and is started again, with secrets that were sealed for the new key.
	pids := w.pids("vault")
	_ = syscall.Kill(pids[vaultInstance], syscall.SIGKILL)
	eventually(t, 20*time.Second, "another process", func() error {
		if now := w.pids("vault"); now[vaultInstance] == 0 || now[vaultInstance] == pids[vaultInstance] {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
	w.says(secondPassword)
}

func (w *world) secretIsRemoved(t *testing.T) {
	r := verge(t, w.root.contextFile(), "secret", "rm", "db-password")
	if r.code != 0 || !strings.Contains(r.err, "vault.main still need it") {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, r.err)
	}
	orders := filepath.Join(w.worker["edge-1"].dir, engineapi.EngineOrdersFile)
	eventually(t, 10*time.Second, "the worker has heard of it", func() error {
		text, err := os.ReadFile(orders)
		if err == nil && bytes.Contains(text, []byte(`"name":"db-password"`)) {
			err = errors.New("it is among its orders")
		}
		return err
	})
	w.says(secondPassword)
	_ = syscall.Kill(w.pids("vault")[vaultInstance], syscall.SIGKILL)
	w.reason("secret db-password of namespace default is not there")
	w.set("db-password", firstPassword)
	w.says(firstPassword)
}

func (w *world) vaultIsDeleted(t *testing.T) {
	w.root.ok("delete", "application/vault")
	eventually(t, 20*time.Second, "it is gone", func() error {
		left, err := filepath.Glob(filepath.Join(w.worker["edge-1"].dir, "instances", "*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("there is %v", left)
		}
		return err
	})
	if left := mountsBelow(t, w.dir); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	kept := filepath.Join(w.worker["edge-1"].dir, "volumes", "default", vaultInstance, "data", "x")
	wantEqual(t, "what is on the named volume", string(must[[]byte](t)(os.ReadFile(kept))), "kept")
}

// mountsBelow lists what is mounted below dir.
func mountsBelow(t *testing.T, dir string) (points []string) {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	return points
}

// unmountBelow ends what killed engines have left mounted.
func unmountBelow(t *testing.T, dir string) {
	t.Helper()
	for _, p := range slices.Backward(mountsBelow(t, dir)) {
		if err := syscall.Unmount(p, 0); err != nil {
			t.Errorf("unmounting %s: %v", p, err)
		}
	}
}
