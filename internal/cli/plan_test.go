package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func planned() *resttest.Fake {
	return &resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			ApplyAnswer: apiv1.ApplyResult{Name: "hello", Revision: 4, Change: "updated", Changes: 2},
			PlanAnswer: apiv1.Plan{
				ApplyResult: apiv1.ApplyResult{Name: "hello", Revision: 4, Change: "updated", Changes: 2,
					Warnings: []string{"services.web: something to know"}},
				Namespace: "default", Source: "root",
				Services: []apiv1.ServicePlan{
					{Name: "db", Change: apiv1.ServiceUnchanged, From: 1, To: 1, Effect: "nothing"},
					{Name: "web", Change: apiv1.ServiceChanged, From: 2, To: 4, Restarts: true,
						Effect: "1 instance restarts, 1 moves, 1 starts, 1 waits", Fields: []apiv1.FieldChange{
							{Field: "command", Old: `["a"]`, New: `["b","\x1b[31m"]`},
							{Field: "env.KEY", New: "(not shown)"},
							{Field: "replicas", Old: "2", New: "4"}}},
				},
				Instances: []rpc.InstancePlan{
					{ID: "hello.db.0", Service: "db", Action: rpc.PlanKeep, From: "fog", To: "fog"},
					{ID: "hello.web.0", Service: "web", Action: rpc.PlanRestart, From: "edge/w1", To: "edge/w1",
						Why: "updating to revision 4"},
					{ID: "hello.web.1", Service: "web", Action: rpc.PlanMove, From: "edge/w1", To: "edge/w2",
						Why: "moving for revision 4: its worker lacks label disk=ssd"},
					{ID: "hello.web.2", Service: "web", Action: rpc.PlanStart, To: "edge/w2", Why: "placed on a worker",
						Decisions: []rpc.Explained{
							{Tier: "cluster/edge", At: noon,
								Decision: place.Decision{V: 1, Kind: "worker", Candidates: 2, Chosen: "w2",
									Request: place.Request{Instance: "hello.web.2", Count: 1, Runtime: "process",
										Demand: api.Resources{CPU: 100, Memory: 64 << 20}},
									Ranked: []place.Ranked{{ID: "w2", Score: 0.5}}}}}},
					{ID: "hello.web.3", Service: "web", Action: rpc.PlanWait,
						Why: "2 clusters: 2 are full: needs 64Mi memory, largest free 12Mi"},
				},
				Sites: []apiv1.PlanSite{{Cluster: "edge", Asked: true, AgeSeconds: 1},
					{Cluster: "fog", Why: "it is away", AgeSeconds: 300}},
				Notes:  []string{"changes that were made at cluster edge give way: verge local, there"},
				Starts: 1, Restarts: 2, Moves: 1, Waits: 1,
			},
		},
	}
}

func TestPlan(t *testing.T) {
	f := newFixture(t, planned())
	file := f.file("hello.yaml", hello)
	for name, args := range map[string][]string{
		"plan": {"plan", file}, "plan-wide": {"plan", file, "-o", "wide"}, "plan-json": {"plan", file, "-o", "json"},
		"plan-yaml":    {"plan", file, "-o", "yaml"},
		"plan-dry-run": {"apply", file, "--dry-run"}, "plan-dry-run-name": {"apply", file, "--dry-run", "-o", "name"},
		"plan-none": {"plan"}, "plan-stdin": {"plan", file, "-"}, "plan-bad-output": {"plan", file, "-o", "name"},
	} {
		r := f.run(args...)
		f.golden(name, r, args...)
		want := exitIncomplete
		if r.stdout == "" {
			want = exitError
		}
		if r.code != want {
			t.Errorf("%s: exit %d", name, r.code)
		}
	}
	if len(f.fake.Applied) != 0 || string(f.fake.Planned[0]) != hello {
		t.Errorf("%d applied, planned %q", len(f.fake.Applied), f.fake.Planned[0])
	}
	f.fake.PlanAnswer = apiv1.Plan{ApplyResult: apiv1.ApplyResult{Name: "hello", Revision: 1, Change: "unchanged"},
		Placed: true, Source: "root"}
	if r := f.run("plan", file); r.code != 0 || !strings.Contains(r.stdout,
		"0 changes, 0 restarts, 0 starts, 0 stops; all would be placed") {
		t.Errorf("%+v", r)
	}
	if r := f.run("plan", file, "--local"); r.code != 0 || !f.fake.MeantLocal {
		t.Errorf("%+v", r)
	}
	f.fake.Hook = func(*resttest.Fake, string) error {
		return wire.Problemf(403, "over-quota", "ask for less",
			"nothing was changed: the quota of the namespace does not allow it", "namespace small")
	}
	if r := f.run("plan", file); r.code != 1 || !strings.Contains(r.stderr, "quota") {
		t.Errorf("%+v", r)
	}
	// The contract of --dry-run for programs.
	f.fake.Hook = nil
	var out struct {
		Name   string
		DryRun bool `json:"dry_run"`
		Plan   apiv1.Plan
	}
	if r := f.run("apply", file, "--dry-run", "-o", "json"); json.Unmarshal([]byte(r.stdout), &out) != nil ||
		out.Name != "hello" || !out.DryRun || !out.Plan.Placed {
		t.Errorf("%s", r.stdout)
	}
}

const two = `application: one
services: {web: {command: [x]}}
---
# the other
application: two
services: {web: {command: [y]}}
`

// Several descriptors are checked before the first is applied.
func TestSeveralDescriptors(t *testing.T) {
	fake := planned()
	var ops []string
	fake.Hook = func(f *resttest.Fake, op string) error {
		if ops = append(ops, op); op == "apply" && len(f.Applied) == 1 {
			return wire.Problemf(409, "host-taken", "choose another", "an ingress host is taken", "a.test")
		}
		return nil
	}
	f := newFixture(t, fake)
	file := f.file("two.yaml", two)
	if r := f.run("apply", file, "--no-wait"); r.code != 1 ||
		!strings.Contains(r.stderr, "two.yaml:3: nothing was applied: an ingress host is taken") || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	fake.Hook, fake.Applied = nil, nil
	if r := f.run("apply", file, "--no-wait"); r.code != 0 || strings.Count(r.stdout, "2 changes applied") != 2 ||
		len(fake.Applied) != 4 {
		t.Errorf("%+v, %d sent", r, len(fake.Applied))
	}
	if r := f.run("plan", file, "-o", "json"); strings.Count(r.stdout, `"source": "root"`) != 2 ||
		!strings.HasPrefix(r.stdout, "{\n  \"items\"") {
		t.Errorf("%+v", r)
	}
	if r := f.run("apply", file, "--no-wait", "-o", "json"); !strings.HasPrefix(r.stdout, "{\n  \"items\"") {
		t.Errorf("%+v", r)
	}
	other := f.file("other.yaml", "application: three\nservices: {web: {command: [z]}}\n")
	fake.Applied = nil
	if r := f.run("apply", file, other, "--no-wait"); r.code != 0 || len(fake.Applied) != 6 {
		t.Errorf("%+v, %d sent", r, len(fake.Applied))
	}
	fake.Applied = nil
	for _, c := range []struct{ args, want string }{
		{"apply " + file + " " + file, "the same application"},
		{"apply " + f.file("bad.yaml", two+"---\napplication: bad\nservices: {web: {comand: [x]}}\n"), "bad.yaml:9"},
		{"apply " + file + " -", "stands alone"},
	} {
		if r := f.run(strings.Fields(c.args)...); r.code != 1 || !strings.Contains(r.stderr, c.want) ||
			len(fake.Applied) != 0 {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}

func TestApplyIntoANamespace(t *testing.T) {
	fake := planned()
	f := newFixture(t, fake)
	file := f.file("hello.yaml", hello)
	named := f.file("named.yaml", "namespace: shop\n"+hello)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"apply", file, "--no-wait"}, hello},
		{[]string{"apply", file, "--no-wait", "-n", "shop"}, "namespace: shop\n" + hello},
		{[]string{"apply", file, "--no-wait", "-n", "default"}, hello},
		{[]string{"apply", named, "--no-wait", "-n", "shop"}, "namespace: shop\n" + hello},
		{[]string{"plan", file, "-n", "shop"}, "namespace: shop\n" + hello},
	} {
		fake.Applied, fake.Planned = nil, nil
		r := f.run(c.args...)
		if got := slices.Concat(fake.Applied, fake.Planned); len(got) != 1 || string(got[0]) != c.want {
			t.Errorf("%v sent %q: %+v", c.args, got, r)
		}
	}
	fake.Applied = nil
	if r := f.run("apply", named, "-n", "bank"); r.code != 1 || len(fake.Applied) != 0 ||
		!strings.Contains(r.stderr, "named.yaml says namespace: shop, the command line --namespace bank") {
		t.Errorf("%+v", r)
	}
}
