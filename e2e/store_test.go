package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// plain is an application of one service that needs so many millicores.
func plain(name, mark string, replicas, milli int) string {
	return fmt.Sprintf(`application: %s
services:
  main:
    command: [testprogram]
    env: {MARK: %q}
    replicas: %d
    replace_after: 60s
    resources: {cpu: %dm}
    ports:
      - name: http
        ingress: {host: %s.test}
    readiness:
      http: {path: /healthz}
`, name, mark, replicas, milli, name)
}

// tighten gives a copied directory the modes that a backup keeps.
func tighten(t *testing.T, dir string) {
	t.Helper()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestCapacity asks for more than there is, and then adds a worker.
func TestCapacity(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.run("never fits", func(t *testing.T) {
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "3s", w.file("app-", plain("giant", "1", 1, 6000)))
		wantEqual(t, "exit code", r.code, 2)
		wantWords(t, "apply", r.err, "cpu", "giant.main.0", "0 of 1 ready", "→")
		i := w.root.instances("giant")["giant.main.0"]
		wantEqual(t, "state", i.State, wire.Requested)
		wantWords(t, "its reason", i.Reason, "cpu", "6", "4")
		w.root.ok("delete", "application/giant", "--timeout", "10s")
	})
	w.run("fits later", func(t *testing.T) {
		file := w.file("app-", plain("big", "1", 3, 2000))
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "4s", file)
		wantEqual(t, "exit code", r.code, 2)
		wantWords(t, "apply", r.err, "2 of 3 ready", "cpu")
		waiting := 0
		for id, i := range w.root.instances("big") {
			if i.State == wire.Running {
				continue
			}
			waiting++
			wantEqual(t, "state of "+id, i.State, wire.Requested)
			wantWords(t, "reason of "+id, i.Reason, "cpu", "2")
		}
		wantEqual(t, "instances that wait", waiting, 1)
		running := w.pids("big")
		w.addWorker("edge", "edge-2")
		w.root.holds("big", 30*time.Second)
		now := w.pids("big")
		for id, pid := range running {
			wantEqual(t, "pid of "+id, now[id], pid)
		}
		wantEqual(t, "instances", len(now), 3)
	})
	w.run("command that does not exist", func(t *testing.T) {
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "6s", w.file("app-", "application: typo\nservices:\n  main:\n    command: [no-such-program]\n"))
		wantEqual(t, "exit code", r.code, 2)
		wantWords(t, "apply", r.err, "no-such-program", "command not found", "PATH", "→")
		w.root.ok("delete", "application/typo", "--timeout", "20s")
		if _, err := w.root.client().Applications.Get(context.Background(), "typo"); err == nil {
			t.Error("it is still there after delete")
		}
	})
}

// wantWords looks for all words in a text for people.
func wantWords(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s does not say %q; it says\n%s", what, word, text)
		}
	}
}
