package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// firstHour are the pages that a newcomer follows, in this order.
var firstHour = []string{"README.md", "docs/tutorial.md"}

// TestReadme does what the README and the tutorial tell a reader to type, from the
// first line to the last, on a copy of the repository. A block of commands whose first
// line is a comment with "it stays in the foreground" runs beside the others until the
// end of the pages, or until a comment says "Ctrl-C in terminal N".
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Verge and starts many processes")
	}
	var blocks []shellBlock
	for _, page := range firstHour {
		source, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		of := shellBlocks(page, string(source))
		if len(of) == 0 {
			t.Errorf("%s has no blocks of commands", page)
		}
		blocks = append(blocks, of...)
	}
	if len(blocks) < 20 {
		t.Fatalf("there are %d blocks of commands: they are not recognised, or they are gone", len(blocks))
	}
	requirePorts(t, "8470", "8471", "8472", "8473", "8474", "8480")
	r := newReader(t)
	for _, b := range blocks {
		r.do(b)
	}
}

// The README shows an example as it is.
func TestReadmeShowsTheExample(t *testing.T) {
	page := must[[]byte](t)(os.ReadFile("../README.md"))
	example := must[[]byte](t)(os.ReadFile("../examples/hello/verge.yaml"))
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```\n") {
		t.Error("README.md does not show examples/hello/verge.yaml as it is")
	}
}

// shellBlock is a fenced block of commands, and the page and line that it begins in.
type shellBlock struct {
	page string
	line int
	text string
}

func (b shellBlock) where() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

func (b shellBlock) first() string {
	first, _, _ := strings.Cut(b.text, "\n")
	if strings.HasPrefix(first, "#") {
		return first
	}
	return ""
}

func shellBlocks(page, markdown string) (out []shellBlock) {
	var open *shellBlock
	for n, line := range strings.Split(markdown, "\n") {
		switch {
		case open == nil && line == "```sh":
			open = &shellBlock{page: page, line: n + 2}
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return out
}

// requirePorts skips the test where the ports that the pages use are taken.
func requirePorts(t *testing.T, ports ...string) {
	for _, p := range ports {
		l, err := net.Listen("tcp", ":"+p)
		if err == nil {
			err = l.Close()
		}
		switch {
		case err == nil:
		case os.Getenv("CI") != "":
			t.Fatalf("a port that the README uses is taken: %v", err)
		default:
			t.Skipf("SKIPPED, the README was not tried: a port that it uses is taken: %v", err)
		}
	}
}

// reader follows a document.
type reader struct {
	t         *testing.T
	dir       string // the copy of the repository
	state     string // environment and folder of the terminal that commands are typed in
	terminals map[string]*terminal
}

var (
	terminalIn = regexp.MustCompile(`terminal (\d+)`)
	interrupt  = regexp.MustCompile(`Ctrl-C in terminals? ([\d, and]+)`)
	number     = regexp.MustCompile(`\d+`)
)

func newReader(t *testing.T) *reader {
	r := &reader{t: t, dir: copyRepository(t), state: filepath.Join(t.TempDir(), "state"), terminals: map[string]*terminal{}}
	t.Cleanup(func() {
		for _, term := range r.terminals {
			term.interrupt()
		}
		// If a step failed the engine is still there: it outlives its agent.
		if _, err := os.Stat(filepath.Join(r.dir, "data", "worker")); err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = r.bash(ctx, "bin/verge worker stop --data-dir data/worker").Run() // it may have ended
		}
	})
	return r
}

// do does what a block says.
func (r *reader) do(b shellBlock) {
	r.t.Helper()
	first := b.first()
	if m := interrupt.FindStringSubmatch(first); m != nil {
		for _, n := range number.FindAllString(m[1], -1) {
			term := r.terminals[n]
			if term == nil {
				r.t.Fatalf("%s: nothing runs in terminal %s", b.where(), n)
			}
			term.interrupt()
			delete(r.terminals, n)
		}
	}
	switch {
	case r.isTarget(b):
	case strings.Contains(first, "stays in the foreground"):
		n := terminalIn.FindStringSubmatch(first)
		if n == nil {
			r.t.Fatalf("%s: in which terminal?", b.where())
		}
		r.start(n[1], b)
	default:
		r.run(b)
	}
}

// isTarget says whether a block is a command that takes long and is tried for itself.
// That it exists is checked.
func (r *reader) isTarget(b shellBlock) bool {
	text := strings.TrimSpace(b.text)
	if text != "make demo" && text != "make test" && text != "make packages" {
		return false
	}
	out, err := r.bash(r.t.Context(), "make --dry-run "+strings.TrimPrefix(text, "make ")).CombinedOutput()
	if err != nil {
		r.t.Errorf("%s: %s: %v\n%s", b.where(), text, err, out)
	}
	return true
}

func (r *reader) bash(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = r.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "VERGE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	// What a command leaves behind must not keep the test waiting for its output.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run types a block into the terminal for commands, which remembers variables.
func (r *reader) run(b shellBlock) {
	r.t.Helper()
	script := fmt.Sprintf("[ ! -e %[1]q ] || . %[1]q\n%[2]s\nexport -p > %[1]q\n", r.state, b.text)
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
	defer cancel()
	out, err := r.bash(ctx, script).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s\nit printed:\n%s%s", b.where(), err, b.text, out, r.others())
	}
	r.t.Logf("%s:\n%s", b.where(), out)
}

// others is what the other terminals show.
func (r *reader) others() string {
	var all strings.Builder
	for n, term := range r.terminals {
		fmt.Fprintf(&all, "\nterminal %s shows:\n%s", n, term.shown())
	}
	return all.String()
}

// terminal is one in which something runs in the foreground.
type terminal struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	once sync.Once

	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes what the command prints.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

func (t *terminal) shown() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// start runs a block in a terminal of its own and waits until it says that it
// is ready.
func (r *reader) start(name string, b shellBlock) {
	r.t.Helper()
	// Ended by interrupt alone: a Verge that is killed leaves its instances behind.
	term := &terminal{cmd: r.bash(context.WithoutCancel(r.t.Context()), b.text), done: make(chan struct{})}
	term.cmd.Stdout, term.cmd.Stderr = term, term
	// Ctrl-C goes to all that a terminal runs.
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := term.cmd.Start(); err != nil {
		r.t.Fatalf("%s: %v", b.where(), err)
	}
	go func() { // ends with the command, which interrupt waits for
		_ = term.cmd.Wait() // how it ends is seen by what it printed
		close(term.done)
	}()
	r.terminals[name] = term // so that it is ended, whatever happens here
	deadline := time.After(time.Minute)
	// Of verge dev the tutorial says what to wait for; its workers are ready before.
	word := "ready"
	if strings.Contains(b.text, "verge dev") {
		word = "ready in "
	}
	for !strings.Contains(term.shown(), word) {
		select {
		case <-term.done:
			r.t.Fatalf("%s: it ended:\n%s\nit printed:\n%s", b.where(), b.text, term.shown())
		case <-deadline:
			r.t.Fatalf("%s: not ready after a minute:\n%s\nit printed:\n%s", b.where(), b.text, term.shown())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// interrupt is Ctrl-C. It returns when what ran has ended.
func (t *terminal) interrupt() {
	t.once.Do(func() {
		_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGINT) // it may have ended
		select {
		case <-t.done:
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-t.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
			<-t.done
		}
	})
}

// copyRepository copies what is under version control, and what is about to be.
func copyRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	list := exec.Command("git", "ls-files", "-z", "-co", "--exclude-standard")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing the files of the repository: %v", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		from, to := filepath.Join("..", name), filepath.Join(dir, name)
		info, err := os.Stat(from)
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, data, info.Mode().Perm())
		}
		if err != nil {
			t.Fatalf("copying the repository: %v", err)
		}
	}
	return dir
}
