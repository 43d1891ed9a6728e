package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// A plan is for who may apply, and no change: it is not in the audit log.
func TestWhoMayPlan(t *testing.T) {
	f := peopled()
	f.PlanAnswer = apiv1.Plan{ApplyResult: apiv1.ApplyResult{Name: "xapp", Revision: 3, Change: "updated"},
		Namespace: "xspace", Placed: true}
	_, _, admin := resttest.Serve(t, f, nil)
	client := resttest.Bearers(t, admin)
	const file = "application: xapp\nnamespace: xspace\nservices: {web: {command: [x]}}\n"
	for who, want := range map[string]int{"developer": 200, "viewer": 403, "outsider": 404, "operator": 404,
		"nobody": 404} {
		status, body := post(t, client, admin.Server+"/v1/plan", who, file)
		if status != want || status == 200 && !strings.Contains(body, `"placed":true`) {
			t.Errorf("%s: %d %s", who, status, body)
		}
	}
	if len(f.Planned) != 1 || string(f.Planned[0]) != file || len(f.Applied) != 0 {
		t.Errorf("planned %q, applied %q", f.Planned, f.Applied)
	}
	for _, e := range f.AuditEntries {
		if e.Result == "ok" {
			t.Errorf("recorded as a change: %+v", e)
		}
	}
	if status, body := post(t, client, admin.Server+"/v1/plan", "developer", "application: 7"); status != 422 ||
		!strings.Contains(body, "invalid-descriptor") {
		t.Errorf("%d %s", status, body)
	}
}

func post(t *testing.T, client *http.Client, url, bearer, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", "application/yaml")
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	text := make([]byte, 64<<10)
	n := 0
	for {
		m, err := a.Body.Read(text[n:])
		if n += m; err != nil || n == len(text) {
			break
		}
	}
	return a.StatusCode, string(text[:n])
}
