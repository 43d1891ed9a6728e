package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/importer"
	"github.com/verge-edge/verge/internal/importer/importertest"
)

// TestNamesOfOtherNamespaces: with --namespace the objects of all namespaces become one
// application. A full name leads to its service only if the manifests have that namespace.
func TestNamesOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	manifest := func(namespace, address string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: db, labels: {app: db}" + namespace + "}\nspec: {containers: [{name: db, image: redis}]}\n" +
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: db" + namespace + "}\nspec: {selector: {app: db}, ports: [{port: 6379}]}\n" +
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: web" + namespace + "}\n" +
			"spec: {containers: [{name: web, image: nginx, env: [{name: DB, value: " + address + "}]}]}\n"
	}
	const data = ", namespace: data"
	for _, c := range []struct {
		name, namespace, address, want string
		level                          importer.Level
		says                           string
	}{
		{"the manifest's", data, "db.data.svc", "DB: db", importer.Said, "db.data.svc is called db"},
		{"the manifest's, short", data, "db.data", "DB: db", importer.Said, "db.data is called db"},
		{"that of the option", "", "db.shop.svc", "DB: db", importer.Said, "db.shop.svc is called db"},
		{"the default", "", "db.default.svc", "DB: db", importer.Said, "db.default.svc is called db"},
		{"another", data, "db.billing.svc", "DB: db.billing.svc", importer.Lost, "which is not a service of this application"},
		{"another, and none named", "", "db.billing.svc", "DB: db.billing.svc", importer.Lost, "which is not a service of this application"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := importertest.Of(manifest(c.namespace, c.address), importer.Options{Namespace: "shop"})
			if err != nil || len(res.Apps) != 1 {
				t.Fatal(err, res.Notes)
			}
			if got := string(res.Apps[0].Source); !strings.Contains(got, "      "+c.want+"\n") {
				t.Errorf("no %q in\n%s", c.want, got)
			}
			importertest.Says(t, res, c.level, 14, c.says)
		})
	}
}
