package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRolloutCommands(t *testing.T) {
	fake := shop(2)
	fake.RolloutAnswer = apiv1.RolloutView{Name: "shop", Revision: 4, Source: "root", Services: []apiv1.ServiceRollout{{
		Name: "web", Phase: wire.RolloutFailed, Why: "cluster edge: web.978800: exit code 7", Promised: 2,
		Clusters: []wire.RolloutReport{{Cluster: "edge", App: "shop", Service: "web", Revision: 4, From: 3,
			Phase: wire.RolloutFailed, Why: "web.978800: exit code 7", Promised: 2, Surge: 1, Ready: 2}},
	}}}
	fake.RevisionList = []apiv1.AppRevision{
		{App: "shop", Revision: 4, By: "admin/ann", When: noon.Add(-time.Minute), Changed: []string{"web: image"},
			Current: true, Descriptor: "application: shop\n"},
		{App: "shop", Revision: 3, By: "admin/bob", When: noon.Add(-time.Hour), Why: "undo to revision 1",
			Descriptor: "application: shop # three\n"},
	}
	fake.ApplyAnswer = apiv1.ApplyResult{Name: "shop", Revision: 5, Change: "updated"}
	f := newFixture(t, fake)
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"rollout status shop", 2,
			[]string{"web      edge     failed   3     2/2   0/2      +1     web.978800: exit code 7",
				"the rollout of shop is not done: it is failed", "verge rollout undo shop"}},
		{"rollout status shop/db", 1, []string{"db is not in application shop"}},
		{"rollout history shop", 0, []string{"4 (current)", "admin/ann", "web: image", "undo to revision 1"}},
		{"rollout history shop --revision 3", 0, []string{"application: shop # three"}},
		{"rollout history shop --revision 9", 1, []string{"revision 9 of shop is not kept"}},
		{"rollout pause shop/web --reason look", 0, []string{"shop/web: rollout paused"}},
		{"rollout resume shop", 0, []string{"shop: rollout resumed"}},
		{"rollout undo shop/web --to 3 --no-wait", 0, []string{"is applied again as revision 5"}},
		{"rollout undo", 1, []string{"is missing"}},
		{"rollout status a.b.c", 1, []string{"not an application or service"}},
	} {
		r := f.run(strings.Fields(c.args)...)
		all := strings.Join(strings.Fields(r.stdout+r.stderr), " ")
		if r.code != c.code {
			t.Errorf("%s: code %d, want %d: %s", c.args, r.code, c.code, all)
		}
		for _, s := range c.says {
			if !strings.Contains(all, strings.Join(strings.Fields(s), " ")) {
				t.Errorf("%s: it does not say %q: %s", c.args, s, all)
			}
		}
	}
	want := []apiv1.RolloutRequest{{Service: "web", Reason: "look"}, {}, {Service: "web", To: 3}}
	for n, q := range fake.Rollouts {
		if n >= len(want) || q != want[n] {
			t.Errorf("request %d: %+v", n, q)
		}
	}
}

// What was taken back holds, and is not what was applied.
func TestApplyOfWhatIsTakenBack(t *testing.T) {
	fake := shop(2)
	fake.Apps[0].Revision, fake.Apps[0].Holds = 5, true
	fake.ApplyAnswer = apiv1.ApplyResult{Name: "shop", Revision: 4, Change: "updated"}
	fake.RevisionList = []apiv1.AppRevision{
		{App: "shop", Revision: 5, Current: true, By: wire.ByRollback, When: ago(time.Second),
			Why: "undo of web to revision 3: its rollout failed, cluster edge: web.0: exit code 7"},
		{App: "shop", Revision: 4, By: "admin/ann", When: ago(time.Minute)},
	}
	f := newFixture(t, fake)
	source := "application: shop\nservices: {web: {command: [y], replicas: 2}}\n"
	r := f.runWith(source, "apply", "-")
	if r.code != 2 || !strings.Contains(r.stderr, "was rolled back: it is revision 5 now") ||
		!strings.Contains(r.stderr, "exit code 7") || strings.Contains(r.stdout, " ready: ") {
		t.Errorf("code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	// Somebody else's next revision is none that took it back.
	fake.RevisionList[0].By = "user/bob"
	if r := f.runWith(source, "apply", "-"); r.code != 0 {
		t.Errorf("code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

func TestDiff(t *testing.T) {
	fake := shop(2)
	fake.Apps[0].Descriptor = "application: shop\nservices: {web: {command: [x], replicas: 2}}\n"
	f := newFixture(t, fake)
	for text, want := range map[string]struct {
		code int
		says string
	}{
		"application: shop\nservices: {web: {command: [x], replicas: 2}}\n": {0, ""},
		"application: shop\nservices: {web: {command: [y], replicas: 2}}\n": {1,
			"shop.web.command"},
		"application: shop\nservices: {web: {command: [x], replicas: 2}, db: {command: [x]}}\n": {1, "shop.db"},
		"application: shop\nservices: {web: {comand: [x]}}\n":                                   {2, "is not a field"},
	} {
		r := f.runWith(text, "diff", "-")
		if r.code != want.code || !strings.Contains(r.stdout+r.stderr, want.says) || want.says == "" && r.stdout != "" {
			t.Errorf("%s: code %d\n%s%s", text, r.code, r.stdout, r.stderr)
		}
	}
	if r := f.run("diff", "--bogus"); r.code != 2 {
		t.Errorf("an error ends with %d, as a difference does", r.code)
	}
}
