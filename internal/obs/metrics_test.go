package obs

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("status %d, %v:\n%s", w.Code, err, b)
	}
	return string(b)
}

func TestMetrics(t *testing.T) {
	calls := 0
	m := NewMetrics("root", func() []Sample {
		calls++
		return []Sample{
			{Name: "verge_instances", Help: "Instances.", Labels: [][2]string{{"state", "Running"}}, Value: 3},
			{Name: "verge_instances", Help: "Instances.", Labels: [][2]string{{"state", "bad \xff"}}, Value: 1},
			{Name: "verge_commits_total", Help: "Commits.", Counter: true, Value: 7},
		}
	})
	if calls != 0 {
		t.Error("samples were taken before anybody asked")
	}
	m.Request("GET", "GET /v1/applications", 200, 30*time.Millisecond)
	m.Request("BREW\n", "/", 405, time.Second)
	got := scrape(t, m)
	for _, want := range []string{
		`verge_build_info{role="root",version="` + Version() + `"} 1`,
		`verge_instances{state="Running"} 3`,
		`verge_instances{state="bad ?"} 1`,
		"# TYPE verge_instances gauge", "# TYPE verge_commits_total counter",
		`http_server_request_duration_seconds_bucket{http_request_method="GET",http_response_status_code="200",http_route="GET /v1/applications",le="0.05"} 1`,
		`http_request_method="_OTHER"`, "process_cpu_seconds_total", "go_goroutines",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
	var none *Metrics
	none.Request("GET", "/", 200, 0) // a server without metrics
}

// Two samples of one name and the same labels are a mistake that a scrape shows.
func TestDoubleSample(t *testing.T) {
	m := NewMetrics("root", func() []Sample {
		return []Sample{{Name: "verge_x", Help: "x", Value: 1}, {Name: "verge_x", Help: "x", Value: 2}}
	})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 500 {
		t.Errorf("status %d", w.Code)
	}
}
