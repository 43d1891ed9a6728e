package lab_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/labtest"
	"github.com/verge-edge/verge/internal/sim/placement"
)

var blocks = regexp.MustCompile("(?ms)^```(sh|yaml)\n(.*?)^```")

// What docs/lab.md tells to type works, in a copy of what it needs, and its lab
// file is one.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/lab.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, b := range blocks.FindAllStringSubmatch(string(text), -1) {
		if b[1] == "sh" {
			script.WriteString(b[2])
			continue
		}
		var err error
		if f, bad := lab.Parse([]byte(b[2])); bad == nil {
			err = f.Validate()
		} else if _, scene := placement.Read(strings.NewReader(b[2]), 1); scene != nil { // a file of verge sim place
			err = errors.Join(bad, scene)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, b[2])
		}
	}
	example, err := os.ReadFile("../../examples/lab/three.yaml")
	if err != nil {
		t.Fatal(err)
	}
	labtest.Need(t)
	dir := base(t)
	files := map[string]string{
		"examples/lab/three.yaml": string(example),
		"bin/verge":               "#!/bin/sh\nexec " + labtest.Verge() + " \"$@\"\n",
	}
	for f, content := range files {
		f = filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if l, err := lab.Of("three", lab.Options{Base: dir + "/labs"}); l != nil {
			t.Errorf("the lab is still there: %v", err)
			if err := l.Down(); err != nil {
				t.Error(err)
			}
		}
	})
	cmd := exec.CommandContext(t.Context(), "bash", "-euxo", "pipefail", "-c", script.String())
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "VERGE_LAB_DIR="+dir+"/labs", "PATH="+dir+"/bin:"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin/lab-results/report.md")); err != nil {
		t.Error(err)
	}
}
