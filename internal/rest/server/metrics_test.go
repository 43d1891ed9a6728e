package server_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
)

// Metrics are for whoever is known; requests are counted by the pattern that
// serves them, and those that wait for news are not.
func TestMetrics(t *testing.T) {
	_, a, admin := resttest.Serve(t, &resttest.Fake{},
		func(o *server.Options) { o.Metrics = obs.NewMetrics("root", nil) })
	nobody := a.Context(t, "", strings.TrimPrefix(admin.Server, "https://"))
	if resp, _, p := ask(t, nobody, "GET", "/metrics", nil); resp.StatusCode != 401 {
		t.Errorf("without a name: %d %+v", resp.StatusCode, p)
	}
	ask(t, admin, "GET", "/v1/applications", nil)
	ask(t, admin, "GET", "/v1/events?wait=10ms", nil)
	ask(t, admin, "GET", "/no/such/thing", nil)
	resp, text, _ := ask(t, admin, "GET", "/metrics", nil)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain; version=") {
		t.Fatalf("%d %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	for _, want := range []string{
		`verge_build_info{role="root"`, `http_route="GET /v1/applications"`, `http_response_status_code="404"`,
		`http_response_status_code="401",http_route="GET /metrics"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
	for _, bad := range []string{"/v1/events", "/no/such"} {
		if strings.Contains(text, bad) {
			t.Errorf("has %s:\n%s", bad, text)
		}
	}
}
