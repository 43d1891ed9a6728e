package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// onDemand is a service that runs only while it is asked for, with more fields of it.
func onDemand(app, fields string) string {
	return `application: ` + app + `
services:
  web:
    replicas: {min: 0, max: 2}
    idle: 2s
    ports: [{name: http, ingress: {host: ` + app + `.test}}]
` + fields
}

// turnedAway is what a client gets that asks a gateway.
type turnedAway struct {
	status int
	again  int // seconds, of Retry-After; 0: it says nothing
	took   time.Duration
	code   string // of a problem
	detail string
	text   string
}

func (r turnedAway) String() string {
	return fmt.Sprintf("%d after %s, Retry-After %d: %s", r.status, r.took.Round(time.Millisecond), r.again, r.text)
}

func turned(ctx context.Context, client *http.Client, addr, host, path string) (r turnedAway, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return r, err
	}
	req.Host = host
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return r, err
	}
	r.status, r.text, r.took = resp.StatusCode, string(b), time.Since(begin)
	r.again, _ = strconv.Atoi(resp.Header.Get("Retry-After")) // 0 is checked
	var p wire.Problem
	if r.status >= 400 && json.Unmarshal(b, &p) == nil {
		r.code, r.detail = p.Code, p.Detail
	}
	return r, nil
}

// TestColdStartsThatFail asks for services that sleep and cannot be started: who asks is
// told so and why, in a bounded time; nothing is started more often than the restart rule
// allows, however many ask; and a version that is mended answers.
func TestColdStartsThatFail(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	client := &http.Client{Timeout: 2 * time.Minute}
	defer client.CloseIdleConnections()
	apply := func(app, fields string) {
		w.root.ok("apply", "--no-wait", w.file("app-", onDemand(app, fields)))
	}
	// says waits until both gateways answer for an application with this code and words:
	// the first ones may come before its routes, and before it was tried often enough.
	// It returns how long the slowest of these answers took.
	says := func(t *testing.T, app, code, detail string) (longest time.Duration) {
		t.Helper()
		for name, x := range w.worker {
			eventually(t, time.Minute, name+" says "+code, func() error {
				r, err := turned(t.Context(), client, x.gateway, app+".test", "/")
				if err == nil && (r.status != http.StatusServiceUnavailable || r.code != code || !strings.Contains(r.detail, detail) || r.again < 1) {
					err = fmt.Errorf("it says %v", r)
				}
				if r.code == code {
					longest = max(longest, r.took)
				}
				return err
			})
		}
		return longest
	}
	answers := func(t *testing.T, app string) {
		t.Helper()
		for name, x := range w.worker {
			eventually(t, time.Minute, name+" answers", func() error {
				_, err := whoami(x.gateway, app+".test", "/whoami")
				return err
			})
		}
	}
	// Workers tell requests what is the matter; the cluster has it from the next report on.
	explained := func(t *testing.T, service, why string) {
		t.Helper()
		eventually(t, 20*time.Second, "explain scale says why", func() error {
			if text := w.root.ok("explain", "scale", service); !strings.Contains(text, why) {
				return fmt.Errorf("it says\n%s", text)
			}
			return nil
		})
	}
	const good = "    command: [testprogram]\n    readiness: {http: {path: /healthz}}\n"

	w.run("it ends at once", func(t *testing.T) {
		tries := sharedDir(t)
		tried := filepath.Join(tries, "tried")
		apply("crash", "    command: [sh, -c, 'umask 0; echo x >> "+tried+"; exit 3']\n    volumes: [{path: tries, host: "+tries+"}]\n")
		says(t, "crash", "not-started", "exit code 3")
		asked := 0
		for begin := time.Now(); time.Since(begin) < 5*time.Second; asked++ {
			for _, x := range w.worker {
				r, err := turned(t.Context(), client, x.gateway, "crash.test", "/")
				if err != nil || r.status != http.StatusServiceUnavailable || r.again < 1 || r.took > 30*time.Second {
					t.Fatalf("%v, %v", r, err)
				}
			}
		}
		b, err := os.ReadFile(tried)
		if err != nil {
			t.Fatal(err)
		}
		// Six on each worker, for each of the two that may run, and then no more for a minute.
		if n := bytes.Count(b, []byte("x")); n > 24 {
			t.Errorf("started %d times", n)
		} else {
			t.Logf("started %d times while at least %d asked", n, 2*asked)
		}
		if text := w.root.ok("describe", "application/crash"); !strings.Contains(text, "exit code 3") {
			t.Errorf("describe says\n%s", text)
		}
		explained(t, "crash.web", "exit code 3")
		apply("crash", good)
		answers(t, "crash")
	})
	w.run("its module is missing", func(t *testing.T) {
		apply("missing", "    runtime: wasm\n    module: "+filepath.Join(w.dir, "none.wasm")+"\n")
		says(t, "missing", "not-started", "could not be fetched")
	})
	w.run("it never gets ready", func(t *testing.T) {
		apply("never", "    command: [testprogram]\n    timeout: 3s\n    readiness: {http: {path: /nothere}}\n")
		// Later ones may come while it is not tried, since it failed too often.
		if longest := says(t, "never", "not-started", "did not become ready"); longest < time.Second {
			t.Errorf("it is waited for as long as the service says, and then that is told: after %s at most", longest)
		}
		apply("never", good)
		answers(t, "never")
	})
	w.run("nobody has room for it", func(t *testing.T) {
		apply("big", good+"    resources: {memory: 9Gi}\n")
		says(t, "big", "no-endpoint", "there is no room for an instance, which needs 9Gi memory")
		apply("unfit", good+"    affinity: {labels: {gpu: yes}}\n")
		says(t, "unfit", "no-endpoint", "no worker is as its instances need it")
		explained(t, "big.web", "9Gi")
		apply("big", good)
		answers(t, "big")
	})
}
