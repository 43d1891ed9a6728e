package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/cli/daemonflags"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/rest/server"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is when all tests happen.
var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// fixture is a server of a fake backend and a user who has its context.
type fixture struct {
	images  func(address string) ImageStore
	t       *testing.T
	dir     string
	fake    *resttest.Fake
	server  *server.Server
	issuer  *resttest.Authority
	entry   client.Context
	env     map[string]string
	daemons daemonflags.Daemons

	mu  sync.Mutex
	now time.Time
	// onSleep runs at each wait, to let things happen meanwhile.
	onSleep func()
}

func newFixture(t *testing.T, fake *resttest.Fake) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), fake: fake, now: noon}
	f.server, f.issuer, f.entry = resttest.Serve(t, fake, nil)
	path := filepath.Join(f.dir, "context.yaml")
	if err := client.WriteContext(path, f.entry); err != nil {
		t.Fatal(err)
	}
	f.env = map[string]string{"VERGE_CONTEXT": path, "HOME": f.dir}
	return f
}

// result of a command.
type result struct {
	code           int
	stdout, stderr string
}

func (f *fixture) run(args ...string) result { return f.runWith("", args...) }

func (f *fixture) runWith(stdin string, args ...string) result {
	return f.runContext(f.t.Context(), stdin, args...)
}

func (f *fixture) runContext(ctx context.Context, stdin string, args ...string) result {
	f.t.Helper()
	var out, errs bytes.Buffer
	code := Main(ctx, args, strings.NewReader(stdin), &out, &errs, f.options())
	return result{code, f.clean(out.String()), f.clean(errs.String())}
}

// restart ends the server and starts another at its address.
func (f *fixture) restart() {
	f.t.Helper()
	if err := f.end(); err != nil {
		f.t.Fatal(err)
	}
	f.startAgain()
}

// end ends the server, when it has answered those who asked before.
func (f *fixture) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f.server.Close(ctx)
}

func (f *fixture) startAgain() {
	f.t.Helper()
	s, err := server.New(server.Options{Addr: f.server.Addr().String(), TLS: f.issuer.ServerTLS(f.t), Backend: f.fake,
		Authorize: resttest.Admin, Version: "v-test"})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			f.t.Error(err)
		}
	})
}

func (f *fixture) clean(s string) string {
	return strings.NewReplacer(f.dir, "DIR", f.server.Addr().String(), "SERVER").Replace(s)
}

func (f *fixture) options() Options {
	return Options{
		Version: "v-test",
		Images:  func(address string) ImageStore { return f.images(address) },
		Daemons: f.daemons, ConfigDir: filepath.Join(f.dir, "etc"),
		Getenv: func(k string) string { return f.env[k] },
		Now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.now
		},
		SealWork: 10,
		Sleep: func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			f.now = f.now.Add(d)
			f.mu.Unlock()
			if f.onSleep != nil {
				f.onSleep()
			}
			return ctx.Err()
		},
	}
}

// live is a command that runs.
type live struct {
	f     *fixture
	stop  context.CancelFunc
	ended chan int
	grew  chan struct{}

	mu   sync.Mutex
	text strings.Builder // guarded by mu: both outputs
	read int             // guarded by mu: how much of it was waited for
}

// Write implements io.Writer.
func (l *live) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.grew <- struct{}{}:
	default:
	}
	return l.text.Write(p)
}

// begin starts a command that goes on until it is ended.
func (f *fixture) begin(args ...string) *live {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.t.Context())
	l := &live{f: f, stop: stop, ended: make(chan int, 1), grew: make(chan struct{}, 1)}
	go func() { l.ended <- Main(ctx, args, strings.NewReader(""), l, l, f.options()) }()
	f.t.Cleanup(stop)
	return l
}

// until waits until it has written something more that ends in text, and returns
// what it wrote since the last time.
func (l *live) until(text string) string {
	l.f.t.Helper()
	late := time.After(20 * time.Second)
	for {
		l.mu.Lock()
		got := l.text.String()[l.read:]
		if n := strings.Index(got, text); n >= 0 {
			l.read += n + len(text)
			l.mu.Unlock()
			return l.f.clean(got[:n+len(text)])
		}
		l.mu.Unlock()
		select {
		case <-l.grew:
		case code := <-l.ended:
			l.ended <- code
			l.f.t.Fatalf("it ended with %d before it wrote %q: %q", code, text, got)
		case <-late:
			l.f.t.Fatalf("it did not write %q: %q", text, got)
		}
	}
}

// end interrupts it and returns its exit code, and what it wrote since the last
// time.
func (l *live) end() (code int, rest string) {
	l.f.t.Helper()
	l.stop()
	return l.over()
}

// over waits for its end.
func (l *live) over() (code int, rest string) {
	l.f.t.Helper()
	select {
	case code = <-l.ended:
	case <-time.After(20 * time.Second):
		l.f.t.Fatal("it does not end")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return code, l.f.clean(l.text.String()[l.read:])
}

// golden compares what a command printed with testdata/<name>.golden.
func (f *fixture) golden(name string, r result, args ...string) {
	f.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "$ verge %s\n[exit %d]\n--- stdout\n%s--- stderr\n%s", strings.Join(args, " "), r.code, r.stdout,
		r.stderr)
	got := strings.ReplaceAll(b.String(), f.dir, "DIR")
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			f.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatalf("%v (make it with: go test ./internal/cli -update)", err)
	}
	if got != string(want) {
		f.t.Errorf("%s differs (go test ./internal/cli -update accepts it)\n--- got\n%s\n--- want\n%s", name, got, want)
	}
}

func (f *fixture) file(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
	return path
}
