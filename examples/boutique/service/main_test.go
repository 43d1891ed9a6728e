package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/descriptor"
)

// topology is the shop as its makers describe it.
type topology struct {
	Nodes []struct {
		Name     string
		Replicas int
		CPU      float64 `json:"cpu_request"`
		Memory   float64 `json:"mem_request_mib"`
		MaxCPU   float64 `json:"cpu_limit"`
		MaxMem   float64 `json:"mem_limit_mib"`
	}
	Edges [][2]string
}

func read(t *testing.T) (*api.Application, topology) {
	t.Helper()
	source, err := os.ReadFile("../verge.yaml")
	if err != nil {
		t.Fatal(err)
	}
	app, warnings, err := descriptor.Parse("verge.yaml", source)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	source, err = os.ReadFile("../testdata/online-boutique.json")
	if err != nil {
		t.Fatal(err)
	}
	var top topology
	if err := json.Unmarshal(source, &top); err != nil {
		t.Fatal(err)
	}
	return app, top
}

// The descriptor has the services of the topology, their calls and their numbers,
// and nothing else.
func TestDescriptorIsTheTopology(t *testing.T) {
	app, top := read(t)
	if len(top.Nodes) != 12 || len(top.Edges) != 16 || len(app.Services) != len(top.Nodes) {
		t.Fatalf("%d services for %d nodes and %d edges", len(app.Services), len(top.Nodes), len(top.Edges))
	}
	clusters := map[string]bool{}
	for _, n := range top.Nodes {
		s := app.Services[n.Name]
		if s == nil {
			t.Errorf("%s is missing", n.Name)
			continue
		}
		milli := func(cores float64) api.CPU { return api.CPU(math.Round(cores * 1000)) }
		want := api.Resources{CPU: milli(n.CPU), Memory: api.Bytes(n.Memory) << 20, Disk: api.DefaultDisk}
		limit := api.Limits{CPU: milli(n.MaxCPU), Memory: api.Bytes(n.MaxMem) << 20}
		if s.Resources != want || s.Limits != limit || s.Replicas.Min != n.Replicas {
			t.Errorf("%s: %+v %+v, want %+v %+v", n.Name, s.Resources, s.Limits, want, limit)
		}
		var calls []string
		for _, e := range top.Edges {
			if e[0] == n.Name {
				calls = append(calls, e[1])
			}
		}
		if got := append(slices.Clone(s.Command[1:]), s.Args...); s.Command[0] != "boutique" || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(calls))) {
			t.Errorf("%s calls %v, want %v", n.Name, got, calls)
		}
		if len(s.Affinity.Cluster) != 1 {
			t.Errorf("%s may run in %v", n.Name, s.Affinity.Cluster)
			continue
		}
		clusters[s.Affinity.Cluster[0]] = true
	}
	if got := slices.Sorted(maps.Keys(clusters)); !slices.Equal(got, []string{"cloud", "edge", "fog"}) {
		t.Errorf("clusters %v", got)
	}
	if i := app.Services["loadgenerator"].Ports[0].Ingress; i == nil || i.Host != "boutique.localhost" {
		t.Errorf("requests enter at %+v", i)
	}
}

// shop runs the services of a map of calls and returns the address of each.
func shop(t *testing.T, calls map[string][]string) map[string]string {
	t.Helper()
	addr, handlers := map[string]string{}, map[string]*service{}
	for name := range calls {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handlers[name].ServeHTTP(w, r) }))
		t.Cleanup(server.Close)
		addr[name] = strings.TrimPrefix(server.URL, "http://")
	}
	for name, list := range calls {
		s, err := newService(list, func(v string) string {
			switch v {
			case "VERGE_SERVICE":
				return name
			case "VERGE_INSTANCE":
				return "shop." + name + ".0"
			}
			other := strings.ReplaceAll(strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(v, "VERGE_"), "_ADDR")), "_", "-")
			return addr[other]
		})
		if err != nil {
			t.Fatal(err)
		}
		handlers[name] = s
	}
	return addr
}

func get(t *testing.T, addr string) (int, hop) {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var h hop
	if err := json.Unmarshal(b, &h); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return resp.StatusCode, h
}

// shape writes a tree without its times.
func shape(h hop) string {
	var calls []string
	for _, c := range h.Calls {
		calls = append(calls, shape(c))
	}
	s := h.Service
	if h.Error != "" {
		s += "!"
	}
	if len(calls) > 0 {
		s += "(" + strings.Join(calls, " ") + ")"
	}
	return s
}

func TestTree(t *testing.T) {
	addr := shop(t, map[string][]string{"front": {"cart", "ad"}, "cart": {"redis-cart"}, "redis-cart": nil, "ad": nil})
	code, h := get(t, addr["front"])
	if code != 200 || shape(h) != "front(cart(redis-cart) ad)" || h.Calls[0].Instance != "shop.cart.0" {
		t.Errorf("%d %s: %+v", code, shape(h), h)
	}
	if h.TookUS < h.Calls[0].TookUS || h.Calls[0].TookUS < h.Calls[0].Calls[0].TookUS || h.TookUS <= 0 {
		t.Errorf("times %+v", h)
	}
}

// A service that is away is shown where it is missing, and the whole has failed.
func TestFailure(t *testing.T) {
	calls := map[string][]string{"front": {"cart", "ad"}, "cart": {"gone"}, "ad": nil, "gone": nil}
	addr := shop(t, calls)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	s, err := newService([]string{"cart"}, func(v string) string {
		return map[string]string{"VERGE_SERVICE": "front", "VERGE_CART_ADDR": strings.TrimPrefix(server.URL, "http://")}[v]
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	var h hop
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || w.Code != http.StatusBadGateway || shape(h) != "front(cart!)" || !strings.Contains(h.Calls[0].Error, "404") {
		t.Errorf("%d %s: %v %+v", w.Code, shape(h), err, h)
	}
	if code, h := get(t, addr["front"]); code != 200 || h.failed() {
		t.Errorf("%d %s", code, shape(h))
	}
	if _, err := newService([]string{"nobody"}, func(string) string { return "" }); err == nil || !strings.Contains(err.Error(), "VERGE_NOBODY_ADDR") {
		t.Errorf("a service that does not exist: %v", err)
	}
}

func TestCircleEnds(t *testing.T) {
	addr := shop(t, map[string][]string{"a": {"b"}, "b": {"a"}})
	code, h := get(t, addr["a"])
	if code != http.StatusBadGateway || !strings.Contains(fmt.Sprint(h), "circle") {
		t.Errorf("%d %s", code, shape(h))
	}
}
