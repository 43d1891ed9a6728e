package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// peopled is a world with users and an audit log.
func peopled() *resttest.Fake {
	f := spaced()
	f.TokenAnswer = apiv1.TokenReply{Token: "verge-api-abc", Expires: noon.Add(24 * time.Hour)}
	f.UserList = []apiv1.UserView{
		{Name: "amy", Roles: wire.Roles{Admin: true}, Created: noon.Add(-time.Hour), By: "admin/admin",
			TokenCreated: noon.Add(-time.Hour), TokenExpires: noon.Add(48 * time.Hour)},
		{Name: "bob", Roles: wire.Roles{Namespaces: map[string]string{"shop": "developer", "bank": "developer",
			"x": "viewer"}, Clusters: map[string]string{"edge": "operator"}},
			Created: noon.Add(-time.Hour), By: "user/amy", TokenCreated: noon.Add(-time.Hour),
			TokenExpires: noon.Add(-time.Minute)},
		{Name: "zoe", TokenExpires: noon.Add(time.Hour)},
	}
	f.TokenList = []apiv1.TokenView{
		{ID: "1a2b3c4d5e6f7081", Kind: "api", By: "admin/admin", Created: noon.Add(-time.Hour),
			Expires: noon.Add(700 * time.Hour)},
		{ID: "99aa3c4d5e6f7081", Kind: "api", By: "token/1a2b3c4d", Created: noon.Add(-time.Minute),
			Expires: noon.Add(time.Hour)},
		{ID: "0123456789abcdef", Kind: "cluster", Cluster: "edge", By: "user/amy", Created: noon.Add(-time.Hour),
			Expires: noon.Add(time.Minute), Used: noon.Add(-30 * time.Minute)},
		{ID: "fedcba9876543210", Kind: "worker", Cluster: "edge", Expires: noon.Add(-time.Hour)},
	}
	for i, e := range []apiv1.AuditEntry{
		{Who: "admin/admin", From: "10.0.0.1", What: "create-user", On: "user/amy", Result: "ok", Detail: "admin"},
		{Who: "user/amy", From: "10.0.0.7", What: "apply", On: "application/guestbook", Result: "ok",
			Detail: "created"},
		{Who: "user/bob", From: "10.0.0.8", What: "delete-application", On: "application/guestbook",
			Result: "forbidden"},
		{From: "192.0.2.1", What: "get-status", Result: "bad-token", Detail: "and 12 more that were not recorded"},
	} {
		e.Seq, e.At = uint64(i)+1, noon.Add(time.Duration(i-4)*time.Hour)
		f.AuditEntries = append(f.AuditEntries, e)
	}
	return f
}

func TestPeopleGolden(t *testing.T) {
	for name, line := range map[string]string{
		"user-ls":             "user ls",
		"user-ls-wide":        "user ls -o wide",
		"user-ls-json":        "user ls -o json",
		"user-describe":       "user describe bob",
		"user-describe-none":  "user describe carl",
		"user-create-again":   "user create bob --viewer shop",
		"user-create-no-role": "user create carl",
		"user-create-both":    "user create carl --viewer shop --developer shop",
		"user-create-long":    "user create carl --admin --ttl 100000h",
		"user-grant":          "user grant bob --viewer more --operator fog",
		"user-revoke":         "user revoke bob --developer shop,bank",
		"user-rm":             "user rm bob",
		"user-rm-none":        "user rm carl",
		"user-unknown":        "user creat",
		"token-ls":            "token ls",
		"token-ls-wide":       "token ls -o wide",
		"token-ls-json":       "token ls -o json",
		"token-revoke":        "token revoke token/1a2b3c4d",
		"token-revoke-none":   "token revoke 00000000",
		"token-revoke-secret": "token revoke verge-api-1.00",
		"whoami":              "whoami",
		"whoami-json":         "whoami -o json",
		"audit":               "audit",
		"audit-wide":          "audit -o wide --since 150m",
		"audit-json":          "audit -o json --user user/bob",
		"audit-limit":         "audit --limit 1",
		"audit-none":          "audit --user nobody",
		"audit-negative":      "audit --limit -1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, peopled())
			args := strings.Fields(line)
			f.golden(name, f.run(args...), args...)
		})
	}
}

// What user create prints is a context file, and nothing else; it works, and may
// what it was made for.
func TestUserCreatePrintsAContext(t *testing.T) {
	f := newFixture(t, peopled())
	for _, args := range [][]string{{"user", "create", "carl", "--developer", "shop", "--ttl", "1h"},
		{"user", "token", "carl"}} {
		r := f.run(args...)
		if r.code != 0 || strings.Contains(r.stderr, "verge-api-abc") || strings.Contains(r.stdout, "PRIVATE KEY") {
			t.Fatalf("%v: %+v", args, r)
		}
		path := f.file(args[1]+".yaml", strings.ReplaceAll(r.stdout, "SERVER", f.server.Addr().String()))
		e, err := client.ReadContext(path)
		if err != nil || e.Name != "test-carl" || e.Token != "verge-api-abc" || e.Cert != "" || e.Namespace != "shop" {
			t.Fatalf("%v: %v, %v", args, e, err)
		}
	}
	f.fake.People = map[string]rest.Principal{"verge-api-abc": {Who: access.Who{Name: "user/carl",
		Namespaces: map[string]access.Role{"shop": access.Viewer}}}}
	f.env["VERGE_CONTEXT"] = filepath.Join(f.dir, "create.yaml")
	f.golden("user-own-whoami", f.run("whoami"), "whoami")
	f.golden("user-own-get", f.run("get", "apps"), "get", "apps")
	f.golden("user-own-delete", f.run("delete", "app/guestbook"), "delete", "app/guestbook")
	f.golden("user-own-user-ls", f.run("user", "ls"), "user", "ls")
	f.golden("user-own-clusters", f.run("get", "clusters"), "get", "clusters")
	f.fake.People = nil
	f.golden("user-own-removed", f.run("whoami"), "whoami")
}
