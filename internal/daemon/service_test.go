package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cli/daemonflags"
)

// buffer that a logger may write to while a test reads.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// The service manager hears when a daemon is ready, reads its settings again and
// ends, and what the daemon starts does not find the manager's socket.
func TestServiceManager(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	var out buffer
	type answer struct {
		flags   any
		changed []string
		err     error
	}
	answers := make(chan answer, 2)
	answers <- answer{daemonflags.RootFlags{ClusterDeadAfter: time.Hour,
		Process: daemonflags.Process{LogLevel: "debug"}}, []string{"cluster-dead-after", "link", "log-level"}, nil}
	answers <- answer{err: errors.New("line 3 is bad")}
	s, err := newService(daemonflags.Process{LogFormat: "text", LogLevel: "info", Stderr: &out,
		Reread: func() (any, []string, error) {
			a := <-answers
			return a.flags, a.changed, a.err
		}})
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := os.LookupEnv("NOTIFY_SOCKET"); ok {
		t.Errorf("children would find the manager at %s", v)
	}
	heard := func(want string) {
		t.Helper()
		b := make([]byte, 100)
		if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Fatalf("the manager heard %q, %v, want %q", b[:n], err, want)
		}
	}
	applied := make(chan daemonflags.RootFlags, 1)
	stop := onReload(context.Background(), s, []string{"cluster-dead-after"},
		func(_ context.Context, f daemonflags.RootFlags) {
			s.setLevel(f.LogLevel)
			applied <- f
		})
	ending := s.ready()
	heard("READY=1")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	heard("RELOADING=1")
	heard("READY=1")
	if f := <-applied; f.ClusterDeadAfter != time.Hour {
		t.Errorf("applied %+v", f)
	}
	if !s.log.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("the level of the log is the same as before")
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	heard("RELOADING=1")
	heard("READY=1")
	select {
	case f := <-applied:
		t.Errorf("bad settings were applied: %+v", f)
	default:
	}
	ending()
	heard("STOPPING=1")
	stop()
	for _, want := range []string{"cluster-dead-after log-level", "need a restart\" changed=link", "line 3 is bad"} {
		if !strings.Contains(strings.ReplaceAll(out.String(), "that a restart brings into force", "need a restart"),
			want) {
			t.Errorf("the log lacks %q:\n%s", want, out.String())
		}
	}
}

// Settings that are being brought into force while the role ends by itself do not keep the
// process from ending: nobody would start it again.
func TestAReloadEndsWithItsRole(t *testing.T) {
	var out buffer
	s, err := newService(daemonflags.Process{LogFormat: "text", LogLevel: "info", Stderr: &out,
		Reread: func() (any, []string, error) {
			return daemonflags.WorkerFlags{}, []string{"label"}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	stop := onReload(t.Context(), s, []string{"label"}, func(ctx context.Context, _ daemonflags.WorkerFlags) {
		close(began)
		<-ctx.Done() // as where nobody takes the labels
	})
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-began
	stop()
}
