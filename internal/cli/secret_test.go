package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// secretive is a world with secrets.
func secretive() *resttest.Fake {
	f := world()
	f.SecretList = []wire.SecretView{
		{Namespace: "default", Name: "db-password", Created: ago(30 * time.Hour), Updated: ago(3 * time.Minute), By: "user/ann", UsedBy: []string{"guestbook.front", "guestbook.store"}},
		{Namespace: "default", Name: "unused", Created: ago(time.Hour), Updated: ago(time.Hour), By: "admin"},
		{Namespace: "shop", Name: "tls-key", Created: ago(50 * time.Hour), Updated: ago(50 * time.Hour), By: "admin", Problem: "it was sealed with another key than the root has now: set it again"},
	}
	return f
}

func TestSecretGolden(t *testing.T) {
	for name, line := range map[string]string{
		"secret-ls":          "secret ls",
		"secret-ls-wide":     "secret ls -o wide",
		"secret-ls-json":     "secret ls -n shop -o json",
		"secret-ls-name":     "secret ls -n default -o name",
		"secret-ls-none":     "secret ls -n empty",
		"secret-set":         "secret set db-password --from-file DIR/value",
		"secret-set-new":     "secret set session --namespace shop --from-file DIR/line",
		"secret-set-argv":    "secret set session hunter2",
		"secret-set-no-file": "secret set session",
		"secret-set-missing": "secret set session --from-file DIR/none",
		"secret-set-empty":   "secret set session --from-file DIR/empty",
		"secret-set-large":   "secret set session --from-file DIR/large",
		"secret-rm":          "secret rm unused",
		"secret-rm-used":     "secret rm db-password",
		"secret-rm-missing":  "secret rm nothing -n shop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, secretive())
			f.file("value", "hunter2")
			f.file("line", "hunter2\n")
			f.file("empty", "")
			f.file("large", strings.Repeat("hunter2", wire.MaxSecretBytes))
			args := strings.Fields(strings.ReplaceAll(line, "DIR", f.dir))
			r := f.run(args...)
			if strings.Contains(r.stdout+r.stderr, "hunter2") {
				t.Errorf("the value is shown: %+v", r)
			}
			f.golden(name, r, args...)
		})
	}
}

func TestSecretFromStandardInput(t *testing.T) {
	f := newFixture(t, secretive())
	if r := f.runWith("hunter2", "secret", "set", "session", "--from-file", "-"); r.code != 0 || f.fake.SecretValues["default.session"] != "hunter2" {
		t.Errorf("%+v, %q", r, f.fake.SecretValues)
	}
	// The namespace of the context counts where none is given.
	f.entry.Namespace = "shop"
	if err := rest.WriteContext(f.env["VERGE_CONTEXT"], f.entry); err != nil {
		t.Fatal(err)
	}
	if r := f.runWith("x", "secret", "set", "session", "--from-file", "-"); r.code != 0 || f.fake.SecretValues["shop.session"] != "x" {
		t.Errorf("%+v, %q", r, f.fake.SecretValues)
	}
}
