package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

// stocked is a world with objects, as a cluster has them.
func stocked() *resttest.Fake {
	f := world()
	const hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	f.ObjectList = []apiv1.ObjectView{
		{Namespace: "default", Name: "functions/hello.wasm", Size: 5, Digest: hello, Type: "application/wasm",
			Updated: ago(time.Hour), By: "admin/ann", Origin: "root", Copy: true},
		{Namespace: "default", Name: "photos.tgz", Size: 3 << 20, Digest: hello, Updated: ago(time.Minute),
			By: "edge/w1", Origin: "edge"},
		{Namespace: "shop", Name: "a", Size: 5, Digest: "sha256:" + strings.Repeat("0", 64), Updated: ago(time.Minute),
			By: "user/dev", Origin: "root"},
	}
	f.ObjectContents = map[string][]byte{"default/functions/hello.wasm": []byte("hello"), "shop/a": []byte("hello")}
	return f
}

func TestObjectGolden(t *testing.T) {
	for name, line := range map[string]string{
		"object-ls":           "object ls",
		"object-ls-wide":      "object ls -A -o wide",
		"object-ls-json":      "object ls functions/ -n default -o json",
		"object-ls-name":      "object ls -n shop -o name",
		"object-ls-none":      "object ls -n empty",
		"object-put":          "object put greeting.txt DIR/value",
		"object-put-bad-name": "object put ../greeting DIR/value",
		"object-put-missing":  "object put greeting DIR/none",
		"object-put-usage":    "object put greeting",
		"object-get":          "object get functions/hello.wasm",
		"object-get-file":     "object get functions/hello.wasm DIR/out",
		"object-get-none":     "object get nothing -n shop",
		"object-get-damaged":  "object get a DIR/damaged -n shop",
		"object-rm":           "object rm functions/hello.wasm",
		"object-rm-none":      "object rm nothing -n shop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, stocked())
			f.file("value", "hello")
			args := strings.Fields(strings.ReplaceAll(line, "DIR", f.dir))
			f.golden(name, f.run(args...), args...)
			if left, _ := filepath.Glob(filepath.Join(f.dir, ".*")); name == "object-get-damaged" && len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			if _, err := os.Stat(filepath.Join(f.dir, "damaged")); err == nil {
				t.Error("a damaged object has its file's name")
			}
		})
	}
}

func TestObjectFromStandardInput(t *testing.T) {
	f := newFixture(t, stocked())
	if r := f.runWith("hello", "object", "put", "a", "-", "-n", "shop", "--type", "text/plain"); r.code != 0 ||
		string(f.fake.ObjectContents["shop/a"]) != "hello" {
		t.Errorf("%+v", r)
	}
	if r := f.run("object", "get", "a", "-n", "shop"); r.code != 0 || r.stdout != "hello" {
		t.Errorf("%+v", r)
	}
}
