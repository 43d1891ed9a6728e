package cli

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// What every client command that only reads prints, in every form.
func TestGolden(t *testing.T) {
	for name, line := range map[string]string{
		"get-applications":       "get applications",
		"get-applications-wide":  "get apps -o wide",
		"get-application-json":   "get app/guestbook -o json",
		"get-applications-yaml":  "get app -o yaml",
		"get-applications-name":  "get application -o name",
		"get-services":           "get services --app guestbook",
		"get-services-wide":      "get svc -o wide",
		"get-service-prefix":     "get service guestbook.f",
		"get-instances":          "get instances",
		"get-instances-wide":     "get inst -o wide --app guestbook --service store",
		"get-instances-prefix":   "get inst guestbook.front -o name",
		"get-instances-json":     "get instance guestbook.front.0 -o json",
		"get-clusters":           "get clusters",
		"get-clusters-wide":      "get cluster -o wide",
		"get-workers":            "get workers",
		"get-workers-wide":       "get worker edge/w1 -o wide",
		"get-missing":            "get app nothing",
		"get-none":               "get services --app nothing",
		"get-unknown-kind":       "get pods",
		"get-bad-output":         "get apps -o xml",
		"describe-application":   "describe app/guestbook",
		"describe-service":       "describe service/guestbook.front",
		"describe-instance":      "describe instance/guestbook.store.0",
		"describe-instance-part": "describe inst/guestbook.st",
		"describe-ambiguous":     "describe instance/guestbook.front",
		"describe-cluster":       "describe cluster/edge",
		"describe-cluster-bare":  "describe cluster/cloud",
		"describe-worker":        "describe worker/edge/w1",
		"describe-worker-away":   "describe worker/edge/w2",
		"describe-missing":       "describe worker/edge/w9",
		"describe-no-name":       "describe app",
		"logs":                   "logs instance/guestbook.store.0",
		"logs-tail":              "logs guestbook.store --tail 2",
		"logs-tail-0":            "logs guestbook.store --tail 0",
		"logs-follow-ended":      "logs guestbook.store -f --tail 1",
		"status":                 "status",
		"status-json":            "status -o json",
		"events":                 "events",
		"events-json":            "events -o json",
		"explain":                "explain instance/guestbook.front.0",
		"explain-json":           "explain guestbook.front.0 -o json",
		"explain-missing":        "explain guestbook.front.9",
		"token-cluster":          "token create --cluster edge",
		"token-worker":           "token create --worker --ttl 10m",
		"token-gateway":          "token create --worker --gateway",
		"token-gateway-alone":    "token create --api --gateway",
		"token-api-json":         "token create --api -o json",
		"token-none":             "token create",
		"token-two":              "token create --worker --api",
		"token-long":             "token create --api --ttl 1000h",
		"version":                "version",
		"version-json":           "version -o json",
		"version-flag":           "--version",
		"context-show":           "context show",
		"context-path":           "context path",
		"unknown-command":        "aply",
		"unknown-subcommand":     "context sho",
		"unknown-flag":           "status --watsh",
		"missing-argument":       "apply",
		"delete-bare-name":       "delete guestbook",
		"delete-missing":         "delete app/nothing",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, world())
			args := strings.Fields(line)
			f.golden(name, f.run(args...), args...)
		})
	}
}

func TestGoldenAllIsWell(t *testing.T) {
	f := newFixture(t, &resttest.Fake{State: apiv1.StatusView{Role: "cluster", Name: "edge", Version: "v-test",
		Started: noon, Time: noon, Upstream: "connected"}})
	f.golden("status-cluster", f.run("status"), "status")
	f.golden("get-nothing", f.run("get", "instances"), "get", "instances")
	f.golden("get-nothing-json", f.run("get", "instances", "-o", "json"), "get", "instances", "-o", "json")
}

func TestResultsGoToStdoutOnly(t *testing.T) {
	f := newFixture(t, world())
	r := f.run("token", "create", "--cluster", "edge")
	if r.stdout != "verge-join-abc\n" {
		t.Errorf("stdout is %q, it must be the token alone", r.stdout)
	}
	if len(f.fake.TokenRequests) != 1 ||
		f.fake.TokenRequests[0] != (apiv1.TokenRequest{Kind: "cluster", Cluster: "edge"}) {
		t.Errorf("asked for %+v", f.fake.TokenRequests)
	}
}

func TestSchemaAndCompletions(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	if r := f.run("schema"); r.code != 0 || !strings.Contains(r.stdout, `"$schema"`) {
		t.Errorf("schema: %+v", r)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := f.run("completion", shell); r.code != 0 || !strings.Contains(r.stdout, "verge") {
			t.Errorf("completion %s: exit %d, %d bytes", shell, r.code, len(r.stdout))
		}
	}
	if r := f.run(); r.code != 0 || !strings.Contains(r.stdout, "Client commands:") {
		t.Errorf("without arguments: %+v", r)
	}
}
