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

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/resttest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// noon is when all tests happen.
var noon = time.Date(2025, 6, 1, 12, 0, 0, 0, time.UTC)

// fixture is a server of a fake backend and a user who has its context.
type fixture struct {
	t       *testing.T
	dir     string
	fake    *resttest.Fake
	server  *rest.Server
	entry   rest.ContextEntry
	env     map[string]string
	daemons Daemons

	mu  sync.Mutex
	now time.Time
	// onSleep runs at each wait, to let things happen meanwhile.
	onSleep func()
}

func newFixture(t *testing.T, fake *resttest.Fake) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), fake: fake, now: noon}
	f.server, _, f.entry = resttest.Serve(t, fake, nil)
	path := filepath.Join(f.dir, "context.yaml")
	if err := rest.WriteContext(path, f.entry); err != nil {
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
	code := Main(ctx, args, strings.NewReader(stdin), &out, &errs, Options{
		Version: "v-test",
		Daemons: f.daemons, ConfigDir: filepath.Join(f.dir, "etc"),
		Getenv: func(k string) string { return f.env[k] },
		Now: func() time.Time {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.now
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			f.mu.Lock()
			f.now = f.now.Add(d)
			f.mu.Unlock()
			if f.onSleep != nil {
				f.onSleep()
			}
			return ctx.Err()
		},
	})
	clean := strings.NewReplacer(f.dir, "DIR", f.server.Addr().String(), "SERVER")
	return result{code, clean.Replace(out.String()), clean.Replace(errs.String())}
}

// golden compares what a command printed with testdata/<name>.golden.
func (f *fixture) golden(name string, r result, args ...string) {
	f.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "$ verge %s\n[exit %d]\n--- stdout\n%s--- stderr\n%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
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
