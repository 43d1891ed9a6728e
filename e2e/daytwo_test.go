package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDayTwo is what people do with an application that runs: they reach its ports,
// and copy files from and to it, while parts of the way there die.
func TestDayTwo(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.root.ok("secret", "set", "db-password", "--from-file", w.file("secret-", daySecret))
	w.root.apply(`application: box
services:
  one:
    command: [testprogram]
    ports: [{name: http}]
    files: {config.txt: {content: "a setting\n"}}
    volumes: [{name: data, path: data}]
    env: {MARK: "hunter2-in-the-environment"}
    env_secrets: {DB: db-password}
`)
	w.root.holds("box", 20*time.Second)
	pids := w.pids("box")
	w.run("copies", w.copies)
	w.run("ports", w.ports)
	w.run("a port while everything dies", w.portWhileAllDies)
	w.run("root is away", func(t *testing.T) {
		w.root.kill()
		site := w.cluster["edge"]
		f := forwarding(t, site, "box.one.0", ":http")
		wantEqual(t, "the port", f.get(t, "/file?name=config.txt"), "a setting\n")
		to := filepath.Join(t.TempDir(), "copy.txt")
		site.ok("cp", "box.one.0:config.txt", to)
		wantFile(t, to, "a setting\n")
		w.root.start()
		w.root.answers()
		w.allReady()
	})
	w.run("who may", w.whoMayReachIn)
	w.run("support bundle", w.supportBundle)
	if now := w.pids("box"); fmt.Sprint(now) != fmt.Sprint(pids) {
		t.Errorf("the instance was started again: %v, %v", pids, now)
	}
}

// daySecret is the value of a secret of this test's instance.
const daySecret = "correct-horse-battery-staple"

// supportBundle: all that can be reached is in it, what cannot is named, and no secret
// that there is anywhere.
func (w *world) supportBundle(t *testing.T) {
	f := forwarding(t, w.root, "box.one.0", ":http")
	f.get(t, "/call?verge-api-0123456789abcdef=Bearer+0123456789abcdef") // it logs the path alone
	token := w.root.ok("token", "create", "--cluster", "later")
	out := filepath.Join(t.TempDir(), "bundle.tar.gz")
	w.worker["edge-1"].kill()
	r := verge(t, w.root.contextFile(), "support-bundle", "-o", out, "--with", w.cluster["edge"].contextFile(), "--with", "nobody")
	w.worker["edge-1"].start()
	wantEqual(t, "exit code", r.code, 0)
	wantWords(t, "it names what is missing", r.err, "missing: the context nobody", "missing: cluster edge", "workers/edge/edge-1/metrics.txt: ", "logs/box.one.0.log: ")
	files := unbundled(t, out)
	var all strings.Builder
	for name, text := range files {
		all.WriteString(name + "\n" + text)
	}
	wantWords(t, "the bundle", all.String(), "SUMMARY.txt", "doctor.json", "verge_store_writable", `"role": "root"`, `"role": "cluster"`, "box.one.0", "events.json", `"version"`)
	secrets := []string{daySecret, "hunter2-in-the-environment", strings.TrimSpace(token)}
	for _, dir := range []string{w.root.dir, w.cluster["edge"].dir, w.worker["edge-1"].dir} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !(strings.HasSuffix(path, ".key") || strings.HasSuffix(path, "context.yaml") || strings.HasSuffix(path, ".token")) {
				return nil // files come and go
			}
			b, err := os.ReadFile(path)
			for line := range strings.Lines(string(b)) {
				// Lines of keys and tokens, not of certificates.
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "token: ") || strings.Contains(string(b), "PRIVATE KEY") && !strings.Contains(string(b), "CERTIFICATE") && len(line) > 40 && !strings.HasPrefix(line, "-----") {
					secrets = append(secrets, strings.TrimPrefix(line, "token: "))
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(secrets) < 5 {
		t.Errorf("only %d secrets are known", len(secrets))
	}
	for _, s := range secrets {
		if strings.Contains(all.String(), s) {
			t.Errorf("a secret is in the bundle: %.12s…", s)
		}
	}
	if strings.Contains(all.String(), "PRIVATE KEY-----") || strings.Contains(all.String(), "verge-join-1.") {
		t.Error("a key or token is in the bundle")
	}
	w.allReady()
	// With all of it there, the logs and the worker's figures are in it.
	w.root.ok("support-bundle", "-o", out)
	all.Reset()
	for name, text := range unbundled(t, out) {
		all.WriteString(name + "\n" + text)
	}
	wantWords(t, "the bundle", all.String(), "workers/edge/edge-1/metrics.txt", "workers/edge/edge-1/entries.json", "verge_engine_up", "logs/box.one.0.log", "started box.one.0 as pid")
}

// unbundled are the files of a support bundle.
func unbundled(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(io.LimitReader(r, 64<<20))
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(b)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s has %d bytes of %d: %v", path, len(got), len(want), err)
	}
}

// copies of files and trees, and what is refused.
func (w *world) copies(t *testing.T) {
	dir := t.TempDir()
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise) // it never fails
	for name, text := range map[string]string{"tree/a": "a", "tree/deep/big": string(noise), "one": "1"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	// Into its working directory and a volume, and out again.
	w.root.ok("cp", dir+"/tree", "box.one.0:.")
	w.root.ok("cp", dir+"/tree/.", "instance/box.one.0:data/more")
	w.root.ok("cp", dir+"/one", "box.one:data/")
	instance := w.worker["edge-1"].dir + "/instances/box.one.0/work/"
	wantFile(t, instance+"tree/deep/big", string(noise))
	wantFile(t, instance+"data/more/deep/big", string(noise))
	back := filepath.Join(dir, "back")
	r := verge(t, w.root.contextFile(), "cp", "box.one.0:data", back)
	wantEqual(t, "exit code", r.code, 0)
	wantFile(t, back+"/more/deep/big", string(noise))
	wantFile(t, back+"/one", "1")
	info, err := os.Stat(back + "/one")
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	wantWords(t, "cp says", r.err, "3 files, 3 directories", fmt.Sprint(len(noise)+2))
	// A link is no way out.
	for name, to := range map[string]string{"out": "/etc", "up": "../../.."} {
		if err := os.Symlink(to, instance+name); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"out/passwd", "/etc/passwd", "../../engine.json", "up/box.one.0/work/config.txt", "nothing", "data/../../tmp"} {
		to := filepath.Join(dir, "stolen")
		if r := verge(t, w.root.contextFile(), "cp", "box.one.0:"+path, to); r.code != 1 {
			t.Errorf("%s was copied: %s", path, r.err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s was copied", path)
		}
	}
	refused(t, "to a link that leads out", verge(t, w.root.contextFile(), "cp", dir+"/one", "box.one.0:out/one"), "leads out")
	refused(t, "a directory that is not there", verge(t, w.root.contextFile(), "cp", dir+"/one", "box.one.0:no/where/one"), "there is no no")
	refused(t, "from here to here", verge(t, w.root.contextFile(), "cp", dir, dir+"/x"), "INSTANCE:PATH")
	w.brokenCopy(t, dir)
}

// brokenCopy: who copies is killed in the middle, and half a file is nowhere.
func (w *world) brokenCopy(t *testing.T, dir string) {
	pipe := filepath.Join(dir, "endless")
	f, err := os.Create(pipe)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 30 // longer than anybody waits
	if err := f.Truncate(size); err != nil {
		t.Skip("the disk has no sparse files: ", err)
	}
	_ = f.Close()
	cmd := exec.Command(programs.verge, "cp", pipe, "box.one.0:data/endless")
	cmd.Env = environment("VERGE_CONTEXT=" + w.root.contextFile())
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	data := w.worker["edge-1"].dir + "/instances/box.one.0/work/data/"
	halves := func() int {
		list, _ := filepath.Glob(data + ".verge-cp-*")
		return len(list)
	}
	eventually(t, 20*time.Second, "it copies", func() error {
		if halves() == 0 {
			text, _ := os.ReadFile(said.Name()) // nothing: it has said nothing
			return fmt.Errorf("nothing yet: %s", text)
		}
		return nil
	})
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait() // it was ended
	eventually(t, 10*time.Second, "nothing is left", func() error {
		if n := halves(); n > 0 {
			return fmt.Errorf("%d halves", n)
		}
		return nil
	})
	if _, err := os.Stat(data + "endless"); err == nil {
		t.Error("half a file is there")
	}
}

// forwarded is a verge port-forward that runs.
type forwarded struct {
	*commandLine
	addr string
}

func forwarding(t *testing.T, x *tier, args ...string) *forwarded {
	t.Helper()
	c := &commandLine{cmd: exec.Command(programs.verge, append([]string{"port-forward"}, args...)...)}
	c.cmd.Env = environment("VERGE_CONTEXT=" + x.contextFile())
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	f := &forwarded{commandLine: c}
	t.Cleanup(f.stop)
	eventually(t, 20*time.Second, "it forwards", func() error {
		if _, err := fmt.Sscanf(c.out.String(), "forwarding %s to port", &f.addr); err != nil {
			return fmt.Errorf("%q %s: %w", c.out.String(), c.err.String(), err)
		}
		return nil
	})
	return f
}

func (f *forwarded) stop() {
	if f.cmd.ProcessState == nil {
		_, _ = f.cmd.Process.Signal(syscall.SIGTERM), f.cmd.Wait()
	}
}

func (f *forwarded) get(t *testing.T, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Errorf("%s: %v: %s", path, err, f.err.String())
		return ""
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return string(b)
}

// ports: several connections, large ones, those whose one direction ends first.
func (w *world) ports(t *testing.T) {
	f := forwarding(t, w.root, "box/one", ":http")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() { wantEqual(t, "answer", f.get(t, "/file?name=config.txt"), "a setting\n") })
	}
	all.Wait()
	noise := make([]byte, 3<<20)
	_, _ = rand.Read(noise) // it never fails
	resp, err := http.Post("http://"+f.addr+"/upload", "application/octet-stream", bytes.NewReader(noise))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	wantEqual(t, "upload", string(b), fmt.Sprintln(len(noise)))
	if err != nil {
		t.Error(err)
	}
	// Its own direction ends, the answer comes all the same.
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprint(conn, "GET /file?name=config.txt HTTP/1.0\r\n\r\n")
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasSuffix(string(answer), "\r\n\r\na setting\n") {
		t.Errorf("%q, %v", answer, err)
	}
	f.stop()
	wantEqual(t, "exit code", f.cmd.ProcessState.ExitCode(), 0)
	refused(t, "a port that it has not", verge(t, w.root.contextFile(), "port-forward", "box.one.0", ":22"), "no such port", "http")
	refused(t, "a port that is taken", verge(t, w.root.contextFile(), "port-forward", "box.one.0", strings.TrimPrefix(w.root.api, "127.0.0.1:")+":http"), "is not available")
	refused(t, "an instance that is not there", verge(t, w.root.contextFile(), "port-forward", "box.one.7", ":http"), "no such instance")
}

// portWhileAllDies: an open connection outlives the death of each part of the way,
// and nothing of it is lost or twice.
func (w *world) portWhileAllDies(t *testing.T) {
	f := forwarding(t, w.root, "box.one.0", ":http")
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = fmt.Fprint(conn, "GET /echo HTTP/1.1\r\nHost: x\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
	r := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for i, part := range []*daemon{w.worker["edge-1"].daemon, w.cluster["edge"].daemon, w.root.daemon} {
		part.kill()
		text := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		part.start()
		got, err := r.ReadString('\n')
		if err != nil || got != text {
			t.Fatalf("%q, %v: %s", got, err, f.err.String())
		}
	}
	w.allReady()
}

// whoMayReachIn: the same as for exec, and it is written down.
func (w *world) whoMayReachIn(t *testing.T) {
	viewer := w.user(w.root, "looker", "--viewer", "default")
	refused(t, "a viewer's cp", verge(t, viewer, "cp", "box.one.0:config.txt", t.TempDir()), "developer")
	refused(t, "a viewer's port-forward", verge(t, viewer, "port-forward", "box.one.0", ":http"), "developer")
	// What runs beside an instance ends with the right of who started it.
	program := fmt.Sprintf("1000.%d", os.Getpid())
	runs := func() (n int) {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range all {
			if b, err := os.ReadFile(file); err == nil && string(b) == "sleep\x00"+program+"\x00" {
				n++
			}
		}
		return n
	}
	developer := w.user(w.root, "comer", "--developer", "default")
	c := &commandLine{cmd: exec.Command(programs.verge, "exec", "box.one.0", "--", "sleep", program)}
	c.cmd.Env = environment("VERGE_CONTEXT=" + developer)
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.err
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.cmd.Process.Kill(), c.cmd.Wait() })
	eventually(t, 20*time.Second, "it runs", func() error { return differs("programs", runs(), 1) })
	w.root.ok("user", "rm", "comer")
	since := time.Now()
	eventually(t, time.Minute, "it has ended", func() error { return differs("programs", runs(), 0) }) // nobody asks for two
	t.Logf("%s after the right", time.Since(since).Round(time.Millisecond))
	audit := w.root.ok("audit", "-o", "json")
	wantWords(t, "audit", audit, `"what": "start-forward"`, `"detail": "ports http"`, `"what": "start-copy"`, `"detail": "from config.txt"`, `"result": "forbidden"`, `"detail": "to data/"`)
}
