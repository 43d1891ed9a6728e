package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

const nextVersion = "v9.9.9"

// TestUpgrade lets the engine of a worker go on with other programs while requests come in
// and answers are under way: one that is sound, and some that are not.
func TestUpgrade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("workers run on Linux")
	}
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 0, "edge")
	for _, name := range []string{"edge-1", "edge-2"} {
		w.addWorker("edge", name, "--upgrades", "any")
	}
	w.allReady()
	w.root.apply(site("1"))
	x := w.worker["edge-1"]
	for _, name := range []string{"edge-1", "edge-2"} {
		eventually(t, 10*time.Second, name+" routes to it", func() error {
			_, err := fetch(w.worker[name].gateway, siteHost, "/whoami")
			return err
		})
	}
	next := w.nextProgram()
	w.run("a sound program", func(t *testing.T) { w.upgradesSoundly(t, x, next) })
	w.run("people's sessions", func(t *testing.T) { w.sessionsGoOn(t, next) })
	w.run("all workers, by their cluster", func(t *testing.T) { w.upgradesByCluster(t, next) })
	w.run("programs that are none", func(t *testing.T) { w.badProgramIsRefused(t, x) })
	w.run("programs that do not work", func(t *testing.T) { w.badProgramIsRolledBack(t, x) })
	w.run("killed half-way", func(t *testing.T) { w.upgradeIsKilled(t, x) })
	w.run("connections are kept as long as is said", func(t *testing.T) { w.drainEnds(t, x) })
}

// script is a file that can be executed.
func (w *world) script(name, text string) string {
	w.t.Helper()
	return scriptAt(w.t, filepath.Join(w.dir, name), text)
}

func scriptAt(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// undisturbed runs what must neither fail a request, nor break an answer, nor touch an
// instance.
func (w *world) undisturbed(t *testing.T, x *worker, what func()) {
	t.Helper()
	pids := w.pids("site")
	var streams []*stream
	for _, name := range []string{"edge-1", "edge-2"} {
		streams = append(streams, openStream(t, w.worker[name].gateway, siteHost))
	}
	reads := sendTraffic(t, siteHost, x.gateway, w.worker["edge-2"].gateway)
	posts := sendPosts(t, siteHost, x.gateway)
	what()
	posts.noneFailed(t)
	reads.noneFailed(t)
	for _, s := range streams {
		s.unbroken(t)
		s.close()
	}
	if now := w.pids("site"); !maps.Equal(now, pids) {
		t.Errorf("processes of instances were %v, are %v", pids, now)
	}
}

// nextProgram is verge of the next version.
func (w *world) nextProgram() string {
	w.t.Helper()
	return programOfVersion(w.t, nextVersion, nil)
}

// change is what another program has in a file of the sources: once in place of what is
// there once.
type change struct{ file, what, by string }

// programOfVersion is verge of a version, with changes if there are any.
func programOfVersion(t *testing.T, version string, changes []change) string {
	t.Helper()
	dir := newDir(t)
	program := filepath.Join(dir, "verge-"+version)
	replace := map[string]string{}
	for i, c := range changes {
		path := must[string](t)(filepath.Abs(filepath.Join("..", c.file)))
		from, again := replace[path]
		if !again {
			from, replace[path] = path, filepath.Join(dir, fmt.Sprintf("changed-%d.go", i))
		}
		text := string(must[[]byte](t)(os.ReadFile(from)))
		if n := strings.Count(text, c.what); n != 1 {
			t.Fatalf("%q is %d times in %s", c.what, n, c.file)
		}
		if err := os.WriteFile(replace[path], []byte(strings.Replace(text, c.what, c.by, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay := filepath.Join(dir, "overlay.json")
	list := must[[]byte](t)(json.Marshal(map[string]any{"Replace": replace}))
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "build", "-o", program, "-overlay", overlay,
		"-ldflags", "-s -w -X github.com/verge-edge/verge/internal/obs.version="+version, "../cmd/verge").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return program
}

// agentVersions are what the agents say that they are.
func (w *world) agentVersions() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, x := range must[[]rpc.WorkerView](w.t)(w.cluster["edge"].client().Workers.List(context.Background())) {
		out[x.Name] = x.Version
	}
	return out
}

// upgradesByCluster upgrades both workers, one after the other, by one command; a program
// that is none stops at the first of them. Then both go back.
func (w *world) upgradesByCluster(t *testing.T, next string) {
	edge, was := w.cluster["edge"], w.agentVersions()
	same := map[string]string{"edge-1": nextVersion, "edge-2": nextVersion}
	agents := map[string]int{}
	for name, x := range w.worker {
		agents[name] = x.cmd.Process.Pid
	}
	w.undisturbed(t, w.worker["edge-1"], func() {
		t.Log(edge.ok("upgrade", "start", "--binary", next, "--soak", "1s", "--timeout", "2m"))
		wantEqual(t, "versions", fmt.Sprint(w.agentVersions()), fmt.Sprint(same))
		// It is the same process, of a program that the worker has of its own.
		for name, x := range w.worker {
			path := must[string](t)(os.Readlink(fmt.Sprintf("/proc/%d/exe", agents[name])))
			if !strings.HasPrefix(path, filepath.Join(x.dir, "programs")) || engines(x)[path] == 0 {
				t.Errorf("the agent of %s is %s, its engines are %v", name, path, engines(x))
			}
		}
	})
	// What the machine starts is the former program still: it lets the new one go on.
	x := w.worker["edge-2"]
	x.signal(syscall.SIGTERM)
	x.wait()
	x.start()
	eventually(t, 20*time.Second, "edge-2 is back as what it was upgraded to", func() error {
		path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", x.cmd.Process.Pid))
		if err == nil && !strings.HasPrefix(path, filepath.Join(x.dir, "programs")) {
			err = errors.New("it is " + path)
		}
		return err
	})
	w.allReady()
	w.undisturbed(t, w.worker["edge-1"], func() {
		r := verge(t, edge.contextFile(), "upgrade", "start", "--binary", filepath.Join(programs.dir, "testprogram"), "--soak", "1s", "--timeout", "2m")
		if r.code != 2 || !strings.Contains(r.err, "the upgrade is halted") || !strings.Contains(r.err, "cannot be an engine") {
			t.Errorf("a program that is none: %+v", r)
		}
		wantEqual(t, "versions", fmt.Sprint(w.agentVersions()), fmt.Sprint(same))
	})
	w.undisturbed(t, w.worker["edge-1"], func() {
		edge.ok("upgrade", "start", "--binary", programs.verge, "--soak", "1s", "--wave", "2")
		wantEqual(t, "versions", fmt.Sprint(w.agentVersions()), fmt.Sprint(was))
		edge.ok("upgrade", "undo")
		edge.ok("upgrade", "status", "--wait")
		wantEqual(t, "versions", fmt.Sprint(w.agentVersions()), fmt.Sprint(same))
	})
	w.root.holds("site", 20*time.Second)
}

func (w *world) upgradesSoundly(t *testing.T, x *worker, next string) {
	sum := strings.Fields(string(must[[]byte](t)(exec.Command("sha256sum", next).Output())))[0]
	old := enginePID(t, x)
	w.undisturbed(t, x, func() {
		r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", next, "--sha256", sum, "--drain", "5m")
		if r.code != 0 || !strings.Contains(r.err, "the engine is "+nextVersion+" and was ") {
			t.Fatalf("upgrade: %+v", r)
		}
		t.Log(r.err)
		if !alive(old) {
			t.Error("the former engine has ended, with answers under way")
		}
	})
	if programsOf := engines(x); programsOf[next] == 0 {
		t.Errorf("engines of %v, none of %s", programsOf, next)
	}
	before := runningIn(t, w.holder(job).dir)[job].pid
	exitWith(t, runningIn(t, w.holder(job).dir)[job], 3)
	startedAgain(t, w.holder(job), job, before)
	w.root.holds("site", 20*time.Second)
}

func (w *world) badProgramIsRefused(t *testing.T, x *worker) {
	eventually(t, 90*time.Second, "the former engine has ended, which gives connections their time", func() error {
		return differs("engines", len(engines(x)), 1)
	})
	pid := enginePID(t, x)
	w.undisturbed(t, x, func() {
		for _, c := range [][]string{
			{"no such file", "--binary", filepath.Join(w.dir, "nothing")},
			{"is no file that can be executed", "--binary", w.dir},
			{"version says", "--binary", w.script("foreign", "#!/bin/sh\necho hello\n")},
			{"exec format error", "--binary", w.script("rubbish", "rubbish")},
			{"has the SHA-256", "--binary", programs.verge, "--sha256", strings.Repeat("0", 64)},
		} {
			r := verge(t, "", append([]string{"worker", "upgrade", "--data-dir", x.dir}, c[1:]...)...)
			if r.code != 1 || !strings.Contains(r.err, c[0]) {
				t.Errorf("%q: %+v, want %q", c[1:], r, c[0])
			}
		}
		wantEqual(t, "the engine", enginePID(t, x), pid)
	})
}

func (w *world) badProgramIsRolledBack(t *testing.T, x *worker) {
	const version = "#!/bin/sh\n[ \"$1\" != version ] || exec %[1]q \"$@\"\n"
	for name, script := range map[string]string{
		"ends":                  version + "exit 3\n",
		"says nothing and ends": version + "exit 0\n",
		"knows no handover":     version + "unset VERGE_HANDOVER\nexec %[1]q \"$@\"\n",
	} {
		pid := enginePID(t, x)
		bad := w.script(strings.ReplaceAll(name, " ", "-"), fmt.Sprintf(script, programs.verge))
		w.undisturbed(t, x, func() {
			r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", bad, "--drain", "1m")
			if r.code != 1 || !strings.Contains(r.err, "the former one has taken over again") {
				t.Errorf("a program that %s: %+v", name, r)
			}
		})
		eventually(t, 10*time.Second, "the engine before a program that "+name+" is back", func() error {
			if now := enginePID(t, x); now == pid && !alive(pid) {
				return errors.New("no engine")
			}
			_, err := fetch(x.gateway, siteHost, "/whoami")
			return err
		})
	}
	w.root.holds("site", 20*time.Second)
}

// upgradeIsKilled kills the former engine when it has handed over, and the new one at some
// moment: what is left works, whichever it is.
func (w *world) upgradeIsKilled(t *testing.T, x *worker) {
	const version = "#!/bin/sh\n[ \"$1\" != version ] || exec %[1]q \"$@\"\n"
	pids := w.pids("site")
	for name, script := range map[string]string{
		"kills the former engine": version + "kill -9 $PPID\nexec %[1]q \"$@\"\n",
		"is killed at once":       version + "kill -9 $$\n",
		"is killed a bit later":   version + "me=$$\n(sleep 0.1; kill -9 $me) &\nexec %[1]q \"$@\"\n",
	} {
		bad := w.script(strings.ReplaceAll(name, " ", "-"), fmt.Sprintf(script, programs.verge))
		r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", bad, "--drain", "1m")
		t.Logf("a program that %s: %d %s", name, r.code, r.err)
		for _, from := range []string{"edge-1", "edge-2"} {
			eventually(t, 20*time.Second, from+" answers after a program that "+name, func() error {
				_, err := fetch(w.worker[from].gateway, siteHost, "/whoami")
				return err
			})
		}
		w.root.holds("site", 20*time.Second)
		if now := w.pids("site"); !maps.Equal(now, pids) {
			t.Errorf("after a program that %s the processes of instances are %v, were %v", name, now, pids)
		}
	}
}

func (w *world) drainEnds(t *testing.T, x *worker) {
	old := enginePID(t, x)
	s := beginStream(t, x.gateway, siteHost)
	eventually(t, 10*time.Second, "a stream goes on", func() error { return s.beyond(3) })
	r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", programs.verge, "--drain", "1s")
	if r.code != 0 {
		t.Fatalf("upgrade: %+v", r)
	}
	eventually(t, 30*time.Second, "what is open longer is cut", func() error {
		if s.beyond(0) == nil {
			return errors.New("the stream goes on")
		}
		return nil
	})
	wantEqual(t, "exit code", verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--drain", "25h").code, 1)
	eventually(t, 30*time.Second, "another engine is left alone", func() error {
		if alive(old) {
			return fmt.Errorf("the former one, %d, has not ended", old)
		}
		if now := engines(x); now[programs.verge] == 0 {
			return fmt.Errorf("engines are %v", now)
		}
		return nil
	})
	// All of them, also those that still drain, end with the worker.
	x.signal(syscall.SIGTERM)
	wantEqual(t, "exit code of the agent", x.wait(), 0)
	if r := verge(t, "", "worker", "stop", "--data-dir", x.dir); r.code != 0 {
		t.Fatalf("stop: %+v", r)
	}
	eventually(t, 20*time.Second, "no engine is left", func() error {
		if left := engines(x); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}

// engines are the processes of a worker's engines, by their programs. A child that an engine has
// forked is like the engine until it executes a program, so two looks must agree.
func engines(x *worker) (now map[string]int) {
	now = enginesNow(x)
	for range 100 {
		last := now
		if now = enginesNow(x); maps.Equal(now, last) {
			break
		}
	}
	return now
}

func enginesNow(x *worker) map[string]int {
	out := map[string]int{}
	for _, p := range processesOf(x.dir) {
		if len(p.args) > 1 && p.args[1] == "engine" {
			if path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.pid)); err == nil {
				out[path] = p.pid
			}
		}
	}
	return out
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil && !zombie(pid) }

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}

// sendPosts is sendTraffic by requests that nobody repeats.
func sendPosts(t *testing.T, host, addr string) *traffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &traffic{cancel: cancel}
	f.wg.Go(func() {
		client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			begun := time.Now()
			err := post(client, addr, host)
			f.mu.Lock()
			if err == nil {
				f.good++
			} else {
				f.failed = append(f.failed, failure{begun, time.Now(), err})
			}
			f.mu.Unlock()
		}
	})
	t.Cleanup(func() { f.stop() })
	return f
}

func post(client *http.Client, addr, host string) error {
	req, err := http.NewRequest(http.MethodPost, "http://"+addr+"/whoami", strings.NewReader("hello"))
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
