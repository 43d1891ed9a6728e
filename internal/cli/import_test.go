package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/rest/resttest"
)

const composeFile = `services:
  web:
    image: nginx:1.29
    ports: ["8080:80"]
    mem_limit: 128m
`

func TestImport(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	write := func(name, text string) string {
		t.Helper()
		p := filepath.Join(f.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	shop := write("shop/compose.yaml", composeFile)
	lossy := write("lossy/compose.yaml", composeFile+"    privileged: true\n")
	bad := write("bad/compose.yaml", composeFile+"    imagge: x\n")
	vars := write("vars.env", "TAG=1.29\n")
	more := write("more.env", "TAG=${TAG}.${PATCH:-4}$BUILD\n")
	bent := write("bent.env", "A=1\nhunter2\nB hunter2\n")
	tagged := write("tagged/compose.yaml", strings.Replace(composeFile, "1.29", "${TAG}", 1))
	beside := write("beside/compose.yaml", strings.Replace(composeFile, "1.29", "${TAG}", 1)+
		"    environment: {DB_PASSWORD: \"${DB_PASSWORD}\"}\n"+
		"  tool: {image: busybox, profiles: [tools], mem_limit: 64m}\n")
	write("beside/.env", "TAG=1.30\nDB_PASSWORD=hunter2\n")
	pod := write("k8s/pod.yaml",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  hostNetwork: true\n  containers:\n"+
			"  - {name: web, image: nginx}\n")
	claim := write("k8s/claim.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n")
	out := filepath.Join(f.dir, "out")
	for _, c := range []struct {
		name string
		args []string
	}{
		{"import", []string{"import", shop}},
		{"import-folder", []string{"import", "compose", filepath.Join(f.dir, "shop"), "--name", "other", "-n", "team-a",
			"--memory-limit", "2Gi"}},
		{"import-lossy", []string{"import", lossy}},
		{"import-strict", []string{"import", lossy, "--strict", "-o", out}},
		{"import-bad", []string{"import", shop, bad, "-o", out}},
		{"import-missing", []string{"import", filepath.Join(f.dir, "nothing.yaml")}},
		{"import-none", []string{"import", "compose"}},
		{"import-bad-name", []string{"import", shop, "--name", "No Name"}},
		{"import-bad-memory", []string{"import", shop, "--memory-limit", "lots"}},
		{"import-unset", []string{"import", tagged, "-o", out}},
		{"import-env-file", []string{"import", tagged, "--env-file", vars}},
		{"import-env-files", []string{"import", tagged, "--env-file", vars, "--env-file", more}},
		{"import-env-file-bad", []string{"import", tagged, "--env-file", bent, "-o", out}},
		{"import-beside", []string{"import", beside, "--profile", "tools"}},
		{"import-beside-given", []string{"import", filepath.Dir(beside), "--env-file", vars}},
		{"import-kubernetes", []string{"import", "kubernetes", pod, claim}},
		{"import-kubernetes-strict", []string{"import", pod, "--strict", "-o", out}},
		{"import-kubernetes-nothing", []string{"import", claim, "-o", out}},
	} {
		f.golden(c.name, f.run(c.args...), c.args...)
	}
	// What was refused has written nothing.
	if _, err := os.Lstat(out); err == nil {
		t.Error("a refused import made its directory")
	}
	for _, c := range []struct {
		name string
		args []string
	}{
		{"import-dir", []string{"import", shop, lossy, "-o", out}},
		{"import-dir-again", []string{"import", lossy, shop, tagged, "--env-file", vars, "-o", out}},
		{"import-dir-force", []string{"import", shop, "-o", out, "--force"}},
	} {
		f.golden(c.name, f.run(c.args...), c.args...)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if r := f.run("validate", filepath.Join(out, "shop.yaml")); r.code != 0 {
		t.Errorf("validate: %+v", r)
	}
}

// A link beside a compose file leads nowhere else.
func TestImportReadsNothingOutside(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	dir := filepath.Join(f.dir, "shop")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"../outside.txt": "outside", "inside.txt": "inside",
		"compose.yaml": "services: {web: {image: a, volumes: ['./inside.txt:/a:ro', './link.txt:/b:ro', " +
			"'../outside.txt:/c:ro']}}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../outside.txt", filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	r := f.run("import", dir)
	if r.code != exitIncomplete || !strings.Contains(r.stdout, "content: inside") ||
		strings.Contains(r.stdout, "content: outside") {
		t.Errorf("%+v", r)
	}
}

// What docs/import.md tells to type works, and says what stands there.
func TestImportDoc(t *testing.T) {
	text, err := os.ReadFile("../../docs/import.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, &resttest.Fake{})
	dir := filepath.Join(f.dir, "shop")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	blocks := docBlocks.FindAllStringSubmatch(string(text), -1)
	for _, b := range blocks {
		if b[1] != "yaml" {
			continue
		}
		file := "compose.yaml"
		if strings.HasPrefix(b[2], "apiVersion:") {
			file = "k8s/hello.yaml"
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(b[2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said, ran := "", 0
	for _, b := range blocks {
		for line := range strings.Lines(b[2]) {
			if words := strings.Fields(line); b[1] == "sh" {
				r := f.run(words[1:]...)
				if r.code == exitError || words[0] != "verge" {
					t.Errorf("%s: %+v", line, r)
				}
				said += r.stderr
				ran++
			}
		}
	}
	shown := ""
	for _, m := range regexp.MustCompile("(?ms)^```text\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		shown += m[1]
	}
	if ran < 4 || said != shown {
		t.Errorf("%d commands said\n%s\nin the document is\n%s", ran, said, shown)
	}
}

// A compose file is put together with those that it names below its folder. A link that leads
// out of it, and a file that comes without a folder, are refused.
func TestImportOfFilesThatNameOthers(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	dir := filepath.Join(f.dir, "shop")
	for name, text := range map[string]string{
		"shop/compose.yaml":    "include: [parts/web.yaml]\nservices: {db: {image: \"postgres:16\", mem_limit: 64m}}\n",
		"shop/parts/web.yaml":  composeFile,
		"shop/out.yaml":        "include: [link.yaml]\n",
		"elsewhere/other.yaml": composeFile,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(f.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		f.file(name, text)
	}
	if err := os.Symlink("../elsewhere/other.yaml", filepath.Join(dir, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	if r := f.run("import", filepath.Join(dir, "compose.yaml")); r.code == 1 ||
		!strings.Contains(r.stdout, "image: nginx:1.29") || !strings.Contains(r.stdout, "image: postgres:16") {
		t.Errorf("%+v", r)
	}
	// A folder of manifests that something else finishes is not taken as it lies there.
	f.file("elsewhere/kustomization.yaml", "resources: [other.yaml]\n")
	if r := f.run("import", filepath.Join(f.dir, "elsewhere")); r.code != 1 ||
		!strings.Contains(r.stderr, "kubectl kustomize DIR/elsewhere | verge import -") ||
		strings.Contains(r.stderr, "other.yaml:") {
		t.Errorf("%+v", r)
	}
	for _, r := range []result{f.run("import", filepath.Join(dir, "out.yaml")),
		f.runWith("include: [parts/web.yaml]\n", "import", "-")} {
		if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "docker compose config") &&
			!strings.Contains(r.stderr, "cannot be read below") {
			t.Errorf("%+v", r)
		}
	}
}
