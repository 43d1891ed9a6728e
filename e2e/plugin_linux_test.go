package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/place"
)

// docExample is the block of a language in a page of the documentation that has a
// text in it.
func docExample(t *testing.T, page, language, has string) string {
	t.Helper()
	for _, part := range strings.Split(string(must[[]byte](t)(os.ReadFile(page))), "```"+language+"\n")[1:] {
		if code, _, _ := strings.Cut(part, "```"); strings.Contains(code, has) {
			return code
		}
	}
	t.Fatalf("%s has no example in %s with %q", page, language, has)
	return ""
}

// program is one that is no part of Verge, started in the world's folder.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
}

func (w *world) program(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	log := must[*os.File](t)(os.Create(filepath.Join(w.dir, filepath.Base(args[0])+".log")))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, append(os.Environ(), env...), log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	p := &program{t, cmd}
	t.Cleanup(p.kill)
	return p
}

func (p *program) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // killed
	}
}

// needsPython skips a test, loudly, where there is no Python.
func needsPython(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("VERGE_CI_NO_SKIP") != "" {
			t.Fatal("python3 is missing: the example of docs/plugins.md cannot be run")
		}
		t.Skip("SKIPPED for want of python3: the example of docs/plugins.md is not run")
	}
	return python
}

// TestPlugin runs the example of the documentation beside a cluster: it chooses, it is
// killed in the middle, and it comes back.
func TestPlugin(t *testing.T) {
	t.Parallel()
	python := needsPython(t)
	w := newRoot(t)
	script := w.file("plugin-", docExample(t, "../docs/plugins.md", "python", "class Plugin"))
	addr := freeAddr(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	start := func() *program {
		p := w.program(t, []string{"PORT=" + port, "TOKEN=secret-of-the-sage"}, python, script)
		eventually(t, 20*time.Second, "the plugin listens", func() error {
			c, err := net.DialTimeout("tcp", addr, time.Second)
			if err != nil {
				return err
			}
			return c.Close()
		})
		return p
	}
	sage := start()
	w.addCluster("edge", "--plugin", "sage=http://"+addr+"/", "--plugin-token-file", "sage="+w.file("token-", "secret-of-the-sage"))
	w.cluster["edge"].answers()
	w.addWorker("edge", "small", "--memory", "512Mi")
	w.addWorker("edge", "large", "--memory", "1Gi")
	w.addWorker("edge", "quiet", "--label", "quiet=yes")
	w.allReady()

	app := func(name, plugin string) string {
		return fmt.Sprintf("application: %s\nservices:\n  web:\n    command: [testprogram]\n    ports: [{name: http}]\n    scheduler: plugin\n    plugin: %s\n", name, plugin)
	}
	decided := func(instance string) place.Decision {
		e := decode[explanation](t, w.cluster["edge"].ok("explain", "instance/"+instance, "-o", "json"))
		replayed(t, instance, e.Decisions[len(e.Decisions)-1].Decision)
		return e.Decisions[len(e.Decisions)-1].Decision
	}
	w.root.apply(app("one", "sage"))
	d := decided("one.web.0")
	wantEqual(t, "the worker with most free memory", d.Chosen, "large")
	text := w.cluster["edge"].ok("explain", "instance/one.web.0")
	for _, want := range []string{"sage answered in ", "ranked 2, rejected 1", "quiet: rejected by plugin sage: wants to be left alone", "chosen       large"} {
		if !strings.Contains(text, want) {
			t.Errorf("explain does not say %q:\n%s", want, text)
		}
	}

	sage.kill()
	w.root.apply(app("two", "sage"))
	d = decided("two.web.0")
	if a := d.Request.Advice; d.Chosen == "" || a == nil || !strings.Contains(a.Problem, "cannot be reached") {
		t.Errorf("with the plugin killed: chosen %q, %+v", d.Chosen, a)
	}
	if text := w.cluster["edge"].ok("events"); !strings.Contains(text, "rom decides") {
		t.Errorf("no event says that rom decided:\n%s", text)
	}

	start()
	w.root.apply(app("three", "sage"))
	if d = decided("three.web.0"); d.Request.Advice.Problem != "" || d.Chosen == "quiet" {
		t.Errorf("with the plugin back: chosen %q, %+v", d.Chosen, d.Request.Advice)
	}
	metrics := w.cluster["edge"].raw(t, "/metrics")
	for _, want := range []string{`verge_plugin_calls_total{plugin="sage",result="answered"} 2`, `verge_plugin_calls_total{plugin="sage",result="unreachable"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the figures lack %s", want)
		}
	}

	r := verge(t, w.root.contextFile(), "apply", "--timeout", "3s", w.file("app-", app("four", "nobody")))
	if r.code != 2 || !strings.Contains(r.out+r.err, "lacks plugin nobody (has sage)") {
		t.Errorf("a plugin that nobody has: exit code %d\n%s%s", r.code, r.out, r.err)
	}
}
