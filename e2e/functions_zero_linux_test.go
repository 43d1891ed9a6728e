package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/wire"
)

const functionHost = "function.test"

// TestFunctionsFromZero has a function sleep and wake: asked, after the death of the
// engine, and while nobody but the engine is there; and more requests than it may work
// on at a time.
func TestFunctionsFromZero(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	module := must[string](t)(filepath.Abs("../internal/runtime/wasm/testdata/handler.wasm"))
	w.root.apply(`application: fn
services:
  web:
    runtime: wasm
    module: ` + module + `
    replicas: {min: 0, max: 2}
    concurrency: 2
    queue_max: 4
    slo: 5s
    timeout: 2s
    idle: 1s
    limits: {memory: 64Mi}
    ports: [{name: http, ingress: {host: ` + functionHost + `}}]
`)
	node := w.worker["edge-1"]
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(body string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+node.gateway+"/", strings.NewReader(body))
		if err != nil {
			return 0, "", err
		}
		req.Host = functionHost
		resp, err := client.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b), err
	}
	answers := func() error {
		code, text, err := ask("e")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("%d: %s", code, text)
		}
		return err
	}
	asleep := func() error { // as its engine has it, which is there without the tiers
		hands := engineclient.NewRemote(node.dir)
		defer hands.Close()
		st, err := hands.State(t.Context(), 0, 0)
		if err != nil {
			return err
		}
		for _, i := range st.Changed {
			if !i.Asleep || i.Phase != wire.PhasePending {
				return fmt.Errorf("%s is %s: %s", i.ID, i.Phase, i.Why)
			}
		}
		return nil
	}
	w.run("sleeps until it is asked", func(t *testing.T) {
		eventually(t, 20*time.Second, "it sleeps", asleep)
		if text := w.root.ok("get", "instances"); !strings.Contains(text, "asleep") {
			t.Errorf("get instances says\n%s", text)
		}
		eventually(t, 20*time.Second, "it answers", answers)
		eventually(t, 20*time.Second, "it sleeps again", asleep)
		if err := answers(); err != nil {
			t.Error("woken again:", err)
		}
	})
	w.run("the engine dies", func(t *testing.T) {
		if err := syscall.Kill(enginePID(t, node), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 30*time.Second, "it answers", answers)
		eventually(t, 20*time.Second, "it sleeps again", asleep)
	})
	w.run("nobody but the engine", func(t *testing.T) {
		w.root.kill()
		w.cluster["edge"].kill()
		node.kill() // the agent
		for range 2 {
			if err := answers(); err != nil {
				t.Error(err)
			}
			eventually(t, 20*time.Second, "it sleeps again", asleep)
		}
		w.root.start()
		w.cluster["edge"].start()
		node.start()
		w.root.answers()
		w.cluster["edge"].answers()
		w.allReady()
	})
	w.run("more than it may work on", func(t *testing.T) {
		var mu sync.Mutex
		codes := map[int]int{}
		var wg sync.WaitGroup
		for range 12 {
			wg.Go(func() {
				code, text, err := ask("l") // which ends with its time
				if err != nil {
					t.Error(err)
					return
				}
				if code != http.StatusGatewayTimeout && code != http.StatusServiceUnavailable {
					t.Errorf("%d: %s", code, text)
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			})
		}
		wg.Wait()
		if codes[http.StatusGatewayTimeout] == 0 || codes[http.StatusServiceUnavailable] == 0 {
			t.Errorf("of requests that compute for ever, with places for some, were answered with %v", codes)
		}
		eventually(t, 20*time.Second, "it answers again", answers)
	})
}
