package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A scraper with the role for it finds the workers by what Prometheus calls HTTP
// service discovery, and reads their figures and the server's, and nothing else.
func TestWorkersAreMeasured(t *testing.T) {
	fake := &resttest.Fake{
		MetricData: resttest.MetricData{Figures: map[string]string{"edge/w1": "verge_link_up 1\n"}},
		UserData: resttest.UserData{People: map[string]rest.Principal{
			"scraper":  {Who: access.Who{Name: "user/scraper", Monitor: true}},
			"operator": {Who: access.Who{Name: "user/op", Clusters: map[string]access.Role{"edge": access.Operator}}},
			"dev": {Who: access.Who{Name: "user/dev",
				Namespaces: map[string]access.Role{"shop": access.Developer}}},
		}},
		NodeData: resttest.NodeData{WorkerList: []rpc.WorkerView{
			{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "edge"},
			{WorkerInfo: wire.WorkerInfo{Name: "w2"}, Cluster: "edge", Revoked: time.Now()},
			{WorkerInfo: wire.WorkerInfo{Name: "w1"}, Cluster: "fog"},
		}},
	}
	_, a, admin := resttest.Serve(t, fake, func(o *server.Options) { o.Metrics = obs.NewMetrics("root", nil) })
	host := strings.TrimPrefix(admin.Server, "https://")
	nobody := a.Context(t, "", host)
	get := func(token, path string) (*http.Response, string) {
		t.Helper()
		var header []string
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		resp, text, _ := ask(t, nobody, "GET", path, nil, header...)
		return resp, text
	}
	for token, want := range map[string][]string{"scraper": {"edge/w1", "fog/w1"}, "operator": {"edge/w1"}, "dev": {}} {
		resp, text := get(token, "/metrics/targets")
		var list []struct {
			Targets []string
			Labels  map[string]string
		}
		if err := json.Unmarshal([]byte(text), &list); err != nil || resp.StatusCode != 200 ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %v %s", token, resp.StatusCode, err, text)
		}
		var got []string
		for _, x := range list {
			got = append(got, x.Labels["instance"])
			if len(x.Targets) != 1 || x.Targets[0] != host || x.Labels["__metrics_path__"] != "/v1/workers/"+
				x.Labels["instance"]+"/metrics" || x.Labels["__scheme__"] != "https" {
				t.Errorf("%s: %+v", token, x)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || (len(want) == 0 && strings.TrimSpace(text) != "[]") {
			t.Errorf("%s finds %v, want %v: %s", token, got, want, text)
		}
	}
	for _, c := range []struct {
		token, path string
		status      int
	}{
		{"scraper", "/v1/workers/edge/w1/metrics", 200}, {"operator", "/v1/workers/edge/w1/metrics", 200},
		{"scraper", "/v1/workers/edge/none/metrics", 404}, {"operator", "/v1/workers/fog/w1/metrics", 404},
		{"dev", "/v1/workers/edge/w1/metrics", 404}, {"", "/v1/workers/edge/w1/metrics", 401},
		{"", "/metrics/targets", 401},
		{"scraper", "/metrics", 200}, {"dev", "/metrics", 403}, {"operator", "/metrics", 403},
		{"scraper", "/v1/audit", 403}, {"scraper", "/v1/users", 403}, {"scraper", "/v1/workers/edge/w1/drain", 404},
		{"scraper", "/v1/applications/shop", 404},
	} {
		resp, text := get(c.token, c.path)
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.token, c.path, resp.StatusCode, c.status, text)
		}
		if c.status == 200 && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain; version=0.0.4") {
			t.Errorf("%s: %q", c.path, resp.Header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/v1/applications", "/v1/workers", "/v1/clusters", "/v1/instances"} {
		if _, text := get("scraper", path); !strings.Contains(text, `"items":[]`) {
			t.Errorf("a scraper sees %s at %s", text, path)
		}
	}
}
