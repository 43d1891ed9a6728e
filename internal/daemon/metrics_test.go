package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/agent"
	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engine"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// TestMain is also the program that instances of these tests run.
func TestMain(m *testing.M) {
	if os.Getenv("TEST_INSTANCE") != "" {
		addr := net.JoinHostPort("127.0.0.1", os.Getenv("PORT"))
		err := http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/objects" {
				_, _ = io.WriteString(w, os.Getenv("VERGE_OBJECTS")+"/"+os.Getenv("VERGE_NAMESPACE"))
				return
			}
			_, _ = io.WriteString(w, "hello\n")
		})) //nolint:gosec // ended with the test
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// startReal starts a worker with an engine, in this process.
func (s *tiers) startReal() (e func() *engine.Engine, stop func()) {
	s.t.Helper()
	token, err := s.cluster.NewGatewayToken(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	// Instances have users of their own, who see the programs of the worker's PATH.
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Setenv("PATH", filepath.Dir(self)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	dir := s.path("w1")
	d := &devWorkers{log: s.log}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() {
		done <- agent.Run(ctx, agent.Options{
			Dir: dir, Name: "w1", TokenFile: "-", Stdin: strings.NewReader(token), Cluster: s.cluster.Link(),
			Log:      s.log,
			DataAddr: loopback, GatewayAddr: loopback, Gateway: engineapi.GatewayConfig{TLSAddr: loopback},
			Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30},
			Engine: func(cfg engineapi.EngineConfig) (engineclient.Client, error) {
				return d.startEngine(ctx, dir, cfg, s.log)
			},
		})
	}()
	e = func() *engine.Engine {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.engines[0]
	}
	return e, func() {
		if err := e().Shutdown(ctx); err != nil {
			s.t.Error(err)
		}
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
		d.all.Wait()
	}
}

// figures are what a scrape has: the labels of each name, of all series together.
type figures map[string][]map[string]string

var seriesLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? [^ ]+$`)

var labelPair = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"`)

// add takes over a text, with the labels that Prometheus would add.
func (f figures) add(t *testing.T, text string, more map[string]string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := seriesLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("not a line of a scrape: %s", line)
		}
		labels := map[string]string{"instance": "x", "job": "verge"}
		for k, v := range more {
			labels[k] = v
		}
		for _, p := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels[p[1]] = p[2]
		}
		f[m[1]] = append(f[m[1]], labels)
	}
}

// has says whether a series of a name has labels, each with one of its values or
// ("") any.
func (f figures) has(name string, want map[string][]string) bool {
	return slices.ContainsFunc(f[name], func(labels map[string]string) bool {
		for k, values := range want {
			got, ok := labels[k]
			if !ok || (len(values) > 0 && !slices.Contains(values, got)) {
				return false
			}
		}
		return true
	})
}

// expressions of what is shipped for Prometheus and Grafana, by where they stand.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	dir := filepath.Join("..", "..", "deploy", "monitoring")
	out := map[string]string{}
	var rules struct {
		Groups []struct {
			Rules []struct{ Alert, Record, Expr string }
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "alerts.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			out["alert "+r.Alert+r.Record] = r.Expr
		}
	}
	if data, err = os.ReadFile(filepath.Join(dir, "grafana-dashboard.json")); err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(data, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for n, x := range p.Targets {
			out[fmt.Sprintf("panel %q %d", p.Title, n+1)] = x.Expr
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d expressions were found", len(out))
	}
	return out
}

var (
	selector = regexp.MustCompile(`\b((?:verge|http|process|go)_[a-z0-9_]+)\b(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
)

// What alerts and dashboard ask for is what a root, a cluster and a worker say.
func TestMonitoringAsksForWhatThereIs(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("instances run on Linux")
	}
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler), details: true}
	s.startRoot()
	defer s.root.Close()
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	defer s.cluster.Close()
	worker, stop := s.startReal()
	defer stop()
	admin, err := client.ReadContext(s.path("root", "context.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := client.New(admin)
	if err != nil {
		t.Fatal(err)
	}
	s.eventually("the worker is there", s.connected)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cert, key := resttest.NewAuthority(t).Issue(t, "shop.test")
	if _, err := client.Secrets.Set(t.Context(), "default", "shop", []byte(cert+key)); err != nil {
		t.Fatal(err)
	}
	hook := apiv1.HookRequest{HookSpec: wire.HookSpec{URL: "https://127.0.0.1:1/", On: []string{"*"}},
		Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"}
	if _, err := client.Hooks.Set(t.Context(), "", "pager", hook); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Applications.Apply(t.Context(), []byte(fmt.Sprintf(`
application: shop
services:
  web:
    command: [%q]
    env: {TEST_INSTANCE: "1"}
    ports: [{name: http, ingress: {host: shop.test, tls: {secret: shop}, redirect: false}}]
    resources: {cpu: 100m, memory: 64Mi}
    replicas: {min: 1, max: 2}
    slo: 5s
`, self)), false); err != nil {
		t.Fatal(err)
	}
	s.eventually("it runs", func() error {
		app, err := client.Applications.Get(t.Context(), "shop")
		if err == nil && !app.Holds {
			err = fmt.Errorf("%s", app.Message)
		}
		return err
	})
	s.use(client, worker())

	// As a scraper would: with the role for it, found by service discovery.
	all := figures{}
	root, site := s.scraper("root"), s.scraper("edge")
	s.eventually("the gateway has the certificate", func() error {
		if !strings.Contains(site("/v1/workers/edge/w1/metrics"),
			"verge_gateway_certificate_expires_timestamp_seconds{") {
			return errors.New("it shows none that expires")
		}
		return nil
	})
	s.eventually("the cluster has decided how many instances there are to be", func() error {
		if !strings.Contains(site("/metrics"), "verge_scale_instances_wanted{") {
			return errors.New("nothing was decided yet")
		}
		return nil
	})
	all.add(t, root("/metrics"), nil)
	all.add(t, site("/metrics"), nil)
	var targets []struct{ Labels map[string]string }
	if err := json.Unmarshal([]byte(root("/metrics/targets")), &targets); err != nil || len(targets) != 1 {
		t.Fatalf("the targets are %+v, %v", targets, err)
	}
	text := root(targets[0].Labels["__metrics_path__"])
	all.add(t, text, map[string]string{"cluster": targets[0].Labels["cluster"], "worker": targets[0].Labels["worker"]})
	if again := site("/v1/workers/edge/w1/metrics"); !strings.Contains(again, "verge_link_up") {
		t.Errorf("the cluster says of its worker:\n%s", again)
	}

	for where, expr := range expressions(t) {
		var by []string
		for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
			for _, l := range strings.Split(g[1], ",") {
				if l = strings.TrimSpace(l); l != "" && l != "le" {
					by = append(by, l)
				}
			}
		}
		for _, m := range selector.FindAllStringSubmatch(expr, -1) {
			if strings.HasPrefix(m[1], "verge_network_") {
				continue // this worker is not in the service network; the engine's tests have one that is
			}
			want := map[string][]string{}
			for _, x := range matcher.FindAllStringSubmatch(m[2], -1) {
				want[x[1]] = nil
				if x[2] == "=" {
					want[x[1]] = []string{x[3]}
				}
			}
			for _, l := range by {
				if _, ok := want[l]; !ok {
					want[l] = nil
				}
			}
			if !all.has(m[1], want) {
				t.Errorf("%s asks for %s with %v, of which there is nothing: %s", where, m[1], want, expr)
			}
		}
	}
	for _, must := range []struct {
		name string
		with map[string][]string
	}{
		{"verge_worker_instances", map[string][]string{"phase": {"running"}, "process": {"engine"}, "worker": {"w1"}}},
		{"verge_proxy_connections_total", map[string][]string{"application": {"shop"}, "service": {"web"}}},
		{"verge_proxy_connect_duration_seconds_bucket", map[string][]string{"application": {"shop"}, "le": {"0.25"}}},
		{"http_server_request_duration_seconds_count",
			map[string][]string{"service": {"web"}, "http_request_method": {"GET"},
				"http_response_status_code": {"200"}}},
		{"verge_proxy_received_bytes_total", map[string][]string{"service": {"web"}}},
		{"verge_disk_written_bytes_total", map[string][]string{"process": {"agent"}}},
		{"process_cpu_seconds_total", map[string][]string{"process": {"engine"}}},
		{"verge_certificate_expiry_timestamp_seconds", map[string][]string{"certificate": {"worker"}}},
	} {
		if !all.has(must.name, must.with) {
			t.Errorf("there is no %s with %v:\n%s", must.name, must.with, text)
		}
	}
}

// use makes a connection and a request to what runs.
func (s *tiers) use(client *client.Client, e *engine.Engine) {
	s.t.Helper()
	entries, err := client.Workers.Entries(s.t.Context(), "edge", "w1")
	if err != nil || len(entries) != 1 {
		s.t.Fatalf("the entries are %+v, %v", entries, err)
	}
	state, err := e.State(s.t.Context(), 0, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, addr := range []string{entries[0].Addr, state.Info.GatewayAddr} {
		s.eventually("it answers at "+addr, func() error {
			req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+addr+"/", nil)
			if err != nil {
				return err
			}
			req.Host, req.Close = "shop.test", true
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close() // only read
			if err == nil && string(body) != "hello\n" {
				err = fmt.Errorf("%d %s", res.StatusCode, body)
			}
			return err
		})
	}
}

// scraper reads pages of the root or cluster in dir, with the role for it.
func (s *tiers) scraper(dir string) func(path string) string {
	s.t.Helper()
	e, err := client.ReadContext(s.path(dir, "context.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	admin, err := client.New(e)
	if err != nil {
		s.t.Fatal(err)
	}
	defer admin.Close()
	user, err := admin.Users.Create(s.t.Context(),
		apiv1.UserRequest{Name: "prometheus", Roles: wire.Roles{Monitor: true}})
	if err != nil {
		s.t.Fatal(err)
	}
	client := resttest.Bearers(s.t, e)
	return func(path string) string {
		s.t.Helper()
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, e.Server+path, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+user.Token)
		res, err := client.Do(req)
		if err != nil {
			s.t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close() // only read
		if err != nil || res.StatusCode != http.StatusOK {
			s.t.Fatalf("%s: %d %v: %s", path, res.StatusCode, err, body)
		}
		return string(body)
	}
}
