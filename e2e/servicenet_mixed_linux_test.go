package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Of three workers two were told nothing, and are in the service network; the third
// goes without.
const mixedFile = `
seed: 7
links: {default: {latency: 1ms}}
hosts:
  root:    {role: root}
  edge:    {role: cluster, flags: [--interval, 1s]}
  fog:     {role: cluster, flags: [--interval, 1s]}
  cloud:   {role: cluster, flags: [--interval, 1s]}
  edge-1:  {role: worker, cluster: edge, flags: [--gateway, ":8480"]}
  fog-1:   {role: worker, cluster: fog, flags: [--network, loopback, --gateway, ":8480"]}
  cloud-1: {role: worker, cluster: cloud}
`

const mixedPair = `application: pair
services:
  a:
    command: [testprogram]
    affinity: {cluster: [edge]}
    ports: [{name: http, ingress: {host: a.test}}]
  b:
    command: [testprogram]
    affinity: {cluster: [fog]}
    ports: [{name: http, ingress: {host: b.test}}]
`

// TestExamplesInTheNetwork runs the examples over workers of both kinds. Their
// services find each other in both directions by what their descriptors say.
func TestExamplesInTheNetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	needMachines(t)
	for _, p := range [][2]string{{"boutique", "../examples/boutique/service"}, {"guestbook-front", "../examples/guestbook/front"}, {"hello", "../examples/hello"}} {
		if out, err := exec.Command("go", "build", "-o", filepath.Join(programs.dir, p[0]), p[1]).CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", p[0], err, out)
		}
	}
	if out, err := exec.Command("../tools/needs", "redis-server").CombinedOutput(); err != nil {
		if os.Getenv("VERGE_CI_NO_SKIP") != "" {
			t.Fatalf("redis-server is missing: %s", out)
		}
		t.Skipf("SKIPPED: redis-server is missing: %s", out)
	}
	s := terrainOf(t, "mixed", mixedFile)
	s.run("modes", func(t *testing.T) {
		for worker, want := range map[string][2]string{
			"edge-1": {wire.NetworkOverlay, ""}, "cloud-1": {wire.NetworkOverlay, ""}, "fog-1": {wire.NetworkLoopback, "--network loopback"},
		} {
			cluster, _, _ := strings.Cut(worker, "-")
			eventually(t, 10*time.Second, worker+" says what its network is", func() error {
				n := s.worker(cluster, worker).Network
				if n == nil || n.Mode != want[0] || !strings.Contains(n.Why, want[1]) || (want[1] == "") != (n.Why == "") {
					return fmt.Errorf("it says %+v", n)
				}
				return nil
			})
			log := string(must[[]byte](t)(os.ReadFile(s.Log(worker))))
			if !strings.Contains(log, "network: instances") || !strings.Contains(log, "("+want[0]+")") {
				t.Errorf("its log does not say that its network is %s:\n%s", want[0], log)
			}
		}
		if said := s.output("fog", programs.verge, "get", "workers", "-o", "wide", "--context", s.Dir("fog")+"/context.yaml"); !strings.Contains(said, "loopback: it was started with --network loopback") {
			t.Errorf("get workers -o wide says\n%s", said)
		}
	})
	s.run("examples", func(t *testing.T) {
		for _, app := range []string{"hello", "guestbook", "boutique"} {
			s.apply(app, string(must[[]byte](t)(os.ReadFile("../examples/"+app+"/verge.yaml"))))
		}
		get := func(what, host, path string, check func(text string) error) {
			t.Helper()
			eventually(t, 20*time.Second, what, func() error {
				text, err := s.fetch("edge-1", "127.0.0.1:8480", host, path, 3*time.Second)
				if err == nil {
					err = check(text)
				}
				return err
			})
		}
		get("hello answers", "hello.localhost", "/", func(string) error { return nil })
		text := "signed"
		client := s.clientOn("edge-1")
		eventually(t, 20*time.Second, "the guestbook is signed", func() error {
			req := must[*http.Request](t)(http.NewRequest(http.MethodPost, "http://127.0.0.1:8480/", strings.NewReader(url.Values{"name": {"e2e"}, "text": {text}}.Encode())))
			req.Host = "guestbook.localhost"
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			resp, err := client.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusSeeOther {
				return fmt.Errorf("status %s", resp.Status)
			}
			return nil
		})
		// The front and the copy are in the network, the store between them is not.
		get("the copy has what the store has", "guestbook.localhost", "/api/entries", func(text string) error {
			var v struct {
				Total  int
				Copied *int
			}
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				return err
			}
			if v.Total == 0 || v.Copied == nil || *v.Copied != v.Total {
				return fmt.Errorf("it says %s", text)
			}
			return nil
		})
		get("a request travels through the shop", "boutique.localhost", "/", func(text string) error {
			var tree hop
			if err := json.Unmarshal([]byte(text), &tree); err != nil {
				return err
			}
			n := 0
			var walk func(h hop) error
			walk = func(h hop) error {
				n++
				if h.Error != "" {
					return fmt.Errorf("%s: %s", h.Service, h.Error)
				}
				for _, c := range h.Calls {
					if err := walk(c); err != nil {
						return err
					}
				}
				return nil
			}
			if err := walk(tree); err != nil {
				return err
			}
			if n < 12 {
				return fmt.Errorf("it travelled through %d", n)
			}
			return nil
		})
	})
	s.run("both directions", func(t *testing.T) {
		s.apply("pair", mixedPair)
		for _, c := range []struct{ gateway, host, service, want string }{
			{"edge-1", "a.test", "B", "fog-1"}, {"fog-1", "b.test", "A", "edge-1"}, // to the other kind
			{"edge-1", "b.test", "A", "edge-1"}, {"fog-1", "a.test", "B", "fog-1"}, // and there and back
		} {
			eventually(t, 20*time.Second, c.host+" by "+c.gateway+" calls "+c.service, func() error {
				text, err := s.fetch(c.gateway, "127.0.0.1:8480", c.host, "/call?service="+c.service, 3*time.Second)
				if err == nil && !strings.Contains(text, `"worker":"`+c.want+`"`) {
					err = fmt.Errorf("it says %s", text)
				}
				return err
			})
		}
		a := s.instances("pair")["pair.a.0"]
		if len(a.Addrs) != 2 || len(s.instances("pair")["pair.b.0"].Addrs) != 0 {
			t.Errorf("addresses: %+v", s.instances("pair"))
		}
	})
}

// clientOn sends requests from a host, and does not follow where they lead.
func (s *terrain) clientOn(host string) *http.Client {
	return &http.Client{Timeout: 3 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: s.transport(host)}
}
