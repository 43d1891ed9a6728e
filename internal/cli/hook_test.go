package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

const hookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

// hooked is a world with hooks.
func hooked() *resttest.Fake {
	f := world()
	f.HookList = []apiv1.HookView{
		{Namespace: "shop", Name: "pager",
			HookSpec: wire.HookSpec{URL: "https://pager.example/verge", On: []string{"instance.failed", "job.*"},
				WaitSeconds: 5, KeepSeconds: 86400}, Created: ago(50 * time.Hour), By: "user/bob",
			SecretSet: ago(time.Hour), Overlap: ago(-23 * time.Hour), State: "failing",
			Why: "503 Service Unavailable, 7 failures in a row", Waiting: 12, OldestSeconds: 340, Delivered: 88,
			Failures: 9, Dropped: 3,
			DropWhy: "not delivered in 24h0m0s", DroppedAt: ago(20 * time.Hour), Last: "503 Service Unavailable",
			LastAt: ago(4 * time.Second), Next: ago(-time.Minute)},
		{Name: "review", HookSpec: wire.HookSpec{URL: "https://review.example/ask", Before: []string{"apply", "delete"},
			OnFailure: "closed", WaitSeconds: 5, KeepSeconds: 86400}, Created: ago(time.Hour), By: "admin/ann",
			SecretSet: ago(time.Hour), State: "ready", Allowed: 7, Refused: 2, Silent: 1, Last: "asked: it agrees",
			LastAt: ago(time.Minute)},
	}
	f.HookAnswer = apiv1.HookTested{Name: "shop/pager", OK: true, What: "204 No Content", TookSeconds: 0.0321}
	return f
}

func TestHookGolden(t *testing.T) {
	for name, line := range map[string]string{
		"hook-ls":            "hook ls",
		"hook-ls-wide":       "hook ls -o wide -n shop",
		"hook-ls-json":       "hook ls -n shop -o json",
		"hook-ls-name":       "hook ls -o name",
		"hook-describe":      "hook describe pager -n shop",
		"hook-describe-gate": "hook describe review -A",
		"hook-describe-none": "hook describe review -n shop",
		"hook-set": "hook set mail -n shop --url https://mail.example/x --on instance.* " +
			"--secret-file DIR/secret",
		"hook-set-all": "hook set mail -A --url https://mail.example/x --before apply --on-failure open " +
			"--secret-file DIR/secret --ca DIR/secret",
		"hook-set-no-file": "hook set mail -n shop --url https://mail.example/x --on * --secret-file DIR/none",
		"hook-test":        "hook test pager -n shop",
		"hook-pause":       "hook pause pager -n shop",
		"hook-resume":      "hook resume pager -n shop",
		"hook-rotate":      "hook rotate pager -n shop --secret-file DIR/secret",
		"hook-rotate-none": "hook rotate pager -n shop",
		"hook-rm":          "hook rm pager -n shop",
		"hook-rm-none":     "hook rm nothing",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, hooked())
			f.file("secret", hookSecret+"\n")
			args := strings.Fields(strings.ReplaceAll(line, "DIR", f.dir))
			r := f.run(args...)
			if strings.Contains(r.stdout+r.stderr, "whsec_") {
				t.Errorf("the secret is shown: %+v", r)
			}
			if strings.Contains(line, "DIR/secret") && f.fake.HookSecret != hookSecret {
				t.Errorf("the secret came as %q", f.fake.HookSecret)
			}
			f.golden(name, r, args...)
		})
	}
}

func TestAHookThatFailsItsTestIsAnError(t *testing.T) {
	w := hooked()
	w.HookAnswer = apiv1.HookTested{Name: "shop/pager", What: "no answer in 5s"}
	f := newFixture(t, w)
	if r := f.run("hook", "test", "pager", "-n", "shop"); r.code != 1 ||
		!strings.Contains(r.stderr, "no answer in 5s") {
		t.Errorf("%+v", r)
	}
}
